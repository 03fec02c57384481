// The profile of a kernel's ranks that was taken last. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import { type Profile, profileOf } from './profile';
import { sentence, type Server } from './server';

export const PROFILE_SECONDS = 10;

export class ProfileModel {
  status: 'none' | 'sampling' | 'taken' | 'failed' = 'none';
  profile: Profile | null = null;
  /** Why there is none; empty where nothing went wrong. */
  problem = '';
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'control'>,
    private readonly kernel: string,
  ) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Have the ranks sample where they are, and wait for it. A second call meanwhile does nothing. */
  async take(): Promise<void> {
    if (this.status === 'sampling') {
      return;
    }
    this.status = 'sampling';
    this._changed.emit();
    try {
      this.profile = profileOf(await this.server.control(this.kernel, 'profile', { seconds: PROFILE_SECONDS }));
      this.status = 'taken';
    } catch (error) {
      this.problem = sentence(error);
      this.status = 'failed';
    }
    this._changed.emit();
  }
}
