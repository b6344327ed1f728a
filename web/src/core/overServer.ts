/** The commands that also work over a server, told which one. */

const BEGINNING =
  /^(?:TURNTREE_WORKSPACE=(?:'[^']*'|\S+) )?turntree (?=(?:log|show|search|tail|send|cancel|fork|rewind|undo|inbox|approve|reject|edit|answer|conversation|session (?:list|show|create|rename|archive|unarchive))(?: |$))/;

/** A command line of one's own machine as it is typed for a server; others stay, for the ledger's own machine. */
export function overServer(line: string, server: string): string {
  return server ? line.replace(BEGINNING, `turntree --server ${server} `) : line;
}
