// Jest setup provided by Grafana scaffolding
import './.config/jest-setup';

// jsdom has none, and React 19 cannot be loaded without it. (Node's own would keep the process alive.)
global.MessageChannel = class {
  port1 = { onmessage: undefined };
  port2 = { postMessage: (data) => setTimeout(() => this.port1.onmessage?.({ data })) };
};

// jsdom lays nothing out and draws nothing; Grafana's comboboxes show only the options that fit their menu, and
// measure text on a canvas.
if (typeof Element !== 'undefined') {
  Element.prototype.getBoundingClientRect = () => ({ width: 500, height: 1000, top: 0, left: 0, bottom: 0, right: 0 });
  Object.defineProperty(Element.prototype, 'clientHeight', { configurable: true, value: 1000 });
  Object.defineProperty(Element.prototype, 'clientWidth', { configurable: true, value: 500 });
  HTMLCanvasElement.prototype.getContext = () => ({ measureText: (text) => ({ width: 8 * text.length }) });
  global.IntersectionObserver = class {
    observe() {}
    unobserve() {}
    disconnect() {}
  };
  // Matching every element with every rule of Grafana's styles took most of the tests' time. None depends on a style
  // sheet; what components hide, they hide by inline styles or leave out.
  window.getComputedStyle = (element) => element.style;
}
