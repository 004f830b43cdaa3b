/* Search runs in a worker, which a browser does not start from a file. There a hidden frame runs its script. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      // What the script sends goes to the page; what the page sends waits until the script is there.
      // Neither is handed over at once, as with a worker: a page in the middle of its work is not ready.
      inside.postMessage = (data) => setTimeout(() => this.deliver(data));
      this.ready = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        Object.assign(script, { src: url, onload: () => resolve(inside), onerror: reject });
        inside.document.head.append(script);
      });
    }
    deliver(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }
    postMessage(data) {
      const event = new MessageEvent("message", { data });
      this.ready.then((inside) => setTimeout(() => inside.dispatchEvent(event)));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
