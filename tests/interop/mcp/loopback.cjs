// Loaded before a server that would listen on every interface: it listens on loopback alone.
"use strict";
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  return typeof port === "object" ? listen.call(this, port, ...rest) : listen.call(this, port, "127.0.0.1", ...rest);
};
