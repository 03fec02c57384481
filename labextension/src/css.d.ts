declare module '*.css';

/** What is loaded later: the build gives its text. */
declare module '*/pages.css' {
  const text: string;
  export default text;
}
