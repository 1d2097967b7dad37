// Search without a server: a page that was opened from a disk may not start workers, so that a hidden frame takes the
// place of the worker. Where a server delivers the pages nothing is changed.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame;
      this.inside = frame.contentWindow;
      this.ready = new Promise((resolve) => {
        const page = this.inside.document;
        page.open();
        page.write("<!doctype html><html><body></body></html>");
        page.close();
        // What the script says goes to those who listen to this object, not to the page.
        this.inside.postMessage = (data) => {
          const event = new MessageEvent("message", { data });
          this.dispatchEvent(event);
          if (this.onmessage) this.onmessage(event);
        };
        const script = page.createElement("script");
        script.src = new URL(url, location.href).href;
        script.addEventListener("load", resolve);
        page.body.appendChild(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
