@0xe1b64f0a9c37d582;
# The part of the machine config (config.capnp) that says where logs go and who may read metrics.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config");
using A = import "annotations.capnp";

struct Logging {
  destinations @0 :List(LogDestination) $A.doc("Receivers of logs; each gets all lines of its streams.");
}

struct LogDestination {
  endpoint @0 :Text
      $A.doc("Receiver: tcp://, udp:// or tls://, host and port, such as tls://logs.example.org:6514. Of otlp: http:// or "
             "https://, host, port and path, such as https://otel.example.org:4318; without a path, /v1/logs. For events "
             "alone, as messages of Talos: grpc://, host and port. Required.");
  format @1 :LogFormat $A.default("json_lines")
      $A.doc("json_lines: a JSON object for each line. rfc5424: syslog; over tcp and tls with the length before each "
             "message (RFC 6587). otlp: requests of OpenTelemetry in JSON, over http and https.");
  extraTags @2 :List(Tag) $A.map $A.since("v1.7") $A.doc("Fields to add to each line. Every client of the API can read them; a secret belongs in headers.");
  streams @3 :List(LogStream) $A.default("services")
      $A.doc("Logs to send. services: those of talosctl logs. kernel: the kernel log. events: those of talosctl events. "
             "audit: changes that clients of the API made or tried to make.");
  ca @4 :Data $A.base64 $A.doc("Certificates in PEM format, encoded in base64, of the authorities that a receiver of "
                                  "tls:// or https:// is checked with. Without it: the public authorities of the image.");
  bufferSize @5 :Text $A.default("64MiB")
      $A.doc("Space on the disk for lines that the receiver has not got yet. When it is full, the oldest lines are "
             "dropped, and the receiver gets a line with their number.");
  headers @6 :List(Tag) $A.map $A.secret
      $A.doc("HTTP headers of each request of otlp, such as Authorization: Bearer and a token. Their values are secret.");
  compression @7 :LogCompression $A.default("none") $A.doc("Compression of the requests of otlp.");
}

struct Tag { key @0 :Text; value @1 :Text; }

enum LogFormat $A.noun("log format") {
  jsonLines @0 $A.name("json_lines");
  rfc5424 @1;
  otlp @2;
}

enum LogCompression $A.noun("compression of logs") {
  none @0;
  gzip @1;
}

enum LogStream $A.noun("log stream") {
  services @0;
  kernel @1;
  events @2;
  audit @3;
}

struct Metrics {
  port @0 :UInt16 = 50002 $A.default("50002") $A.doc("TCP port, 1024 to 65535.");
  plain @1 :Bool $A.default("false")
      $A.doc("Serve HTTP to all clients. Without it: HTTPS with the node's certificate, to clients with a certificate of "
             "machine.ca with role os:reader, or with the token.");
  token @2 :Text $A.secret $A.doc("Bearer token of clients that have no certificate. At least 16 characters.");
  pods @3 :Bool = true $A.default("true")
      $A.doc("Serve series of each pod and its containers (talos_cgroup_*). Without them a node has a few hundred series.");
}
