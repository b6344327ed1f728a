/** What a tab asks of the one that listens for all of them. */
export type Wish = { follow: string; address: string } | { leave: string } | { gone: true };
