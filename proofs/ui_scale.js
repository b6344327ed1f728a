(() => {
  // What a page is asked by the proof ui-scale. Every time is in milliseconds.
  const painted = (done) =>
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => done(performance.now());
      channel.port2.postMessage(0);
    });
  let times = [];
  let scrolled;

  // The element with the most to scroll.
  const findBox = () => {
    let best = document.scrollingElement;
    let room = best.scrollHeight - best.clientHeight;
    for (const element of document.querySelectorAll("main *, main")) {
      const more = element.scrollHeight - element.clientHeight;
      const { overflowY } = getComputedStyle(element);
      if (more > room && (overflowY === "auto" || overflowY === "scroll")) {
        best = element;
        room = more;
      }
    }
    return best;
  };

  return {
    // When a mark was set and painted, since the navigation began.
    mark: (name) =>
      new Promise((done) => {
        const look = () =>
          performance.getEntriesByName(name).length ? painted(done) : requestAnimationFrame(look);
        look();
      }),
    listen() {
      times = [];
      const hear = (event) => {
        const from = event.timeStamp;
        const line = document.getElementById("p");
        if (line) line.textContent = `${event.key} ${times.length}`;
        painted((at) => times.push(at - from));
      };
      removeEventListener("keydown", window.proofHears, true);
      window.proofHears = hear;
      addEventListener("keydown", hear, true);
    },
    // How long after a key the words of an element change, to the paint.
    watch(selector) {
      times = [];
      let from = 0;
      let before = document.querySelector(selector)?.textContent ?? "";
      const hear = (event) => {
        if (event.key.length === 1) from = event.timeStamp;
      };
      removeEventListener("keydown", window.proofHears, true);
      window.proofHears = hear;
      addEventListener("keydown", hear, true);
      window.proofSees?.disconnect();
      window.proofSees = new MutationObserver(() => {
        const now = document.querySelector(selector)?.textContent ?? "";
        if (now === before) return;
        before = now;
        const since = from;
        if (now && since) painted((at) => times.push(at - since));
      });
      window.proofSees.observe(document.body, { subtree: true, childList: true, characterData: true });
    },
    heard: () => times,
    // How much a list holds, and how many of its rows fit in it.
    held() {
      const list = document.querySelector(".graph-rows");
      const rows = list.querySelectorAll(".graph-row");
      return {
        rows: rows.length,
        fitting: list.clientHeight / rows[0].offsetHeight,
        elements: list.querySelectorAll("*").length,
      };
    },
    // Wait until that many times were taken, but not for ever.
    until: (count, wait, pause) =>
      new Promise((done) => {
        const began = performance.now();
        const look = () =>
          times.length >= count || performance.now() - began > wait
            ? setTimeout(done, pause)
            : setTimeout(look, 10);
        look();
      }),
    // Frame times while scrolling by some pixels a frame.
    scroll: (pixels, frames) =>
      new Promise((done) => {
        const box = findBox();
        if (scrolled !== box) {
          scrolled = box;
          box.scrollTop = pixels > 0 ? 0 : box.scrollHeight;
        }
        let step = pixels;
        let last = 0;
        const taken = [];
        const next = (now) => {
          if (last) taken.push(now - last);
          last = now;
          if (taken.length >= frames) return done(taken);
          const before = box.scrollTop;
          box.scrollTop += step;
          if (box.scrollTop === before) step = -step;
          requestAnimationFrame(next);
        };
        requestAnimationFrame(next);
      }),
  };
})()
