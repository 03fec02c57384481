#!/bin/sh
# Installs what hosts and a batch system take, from Debian, where it is missing and this is root. No service is started:
# a policy says so while the packages are set up.
set -u
packages="openssh-server iproute2 nftables slurm-wlm munge"
for program in sshd ip nft slurmctld munged; do
    command -v "$program" >/dev/null || PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || missing=1
done
[ "${missing:-}" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Hosts take $packages, which only root can install: tests will be skipped."
    exit 0
fi
policy=/usr/sbin/policy-rc.d
if ! [ -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages >/dev/null ||
    echo "Debian's packages could not be installed: tests will be skipped."
