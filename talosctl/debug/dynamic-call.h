// Calls methods of an interface by name, with JSON, as its schema says: `talosctl debug call`
// behind its connection.
//
// A call is a chain: all methods but the last return a capability, on which the next is called. The
// parameters are JSON or YAML with the schema's names; a Resource's spec is read and shown as the
// struct of its type. Capabilities that parameters ask for (LogSink, ByteSink) are made here: each
// call of the server on one is shown as a line of JSON. $secret fields are shown as "***".
#pragma once

#include <capnp/capability.h>
#include <capnp/dynamic.h>
#include <kj/async.h>
#include <kj/function.h>
#include <kj/vector.h>

#include "common/wire/resource-registry.h"

namespace talos::talosctl {

struct CallStep {
  kj::String method;
  kj::String parameters;  // "{…}"; empty: none
};
// Of arguments: one that begins with "{" has the parameters of the method before it.
// InvalidArgument when there is none.
kj::Vector<CallStep> callSteps(kj::ArrayPtr<const kj::String> arguments);

// A line for each method: "read(id :Text, sink :LogSink) -> ()". In the order of the schema.
kj::Array<kj::String> methodLines(capnp::InterfaceSchema schema);

class DynamicCall {
 public:
  // Both outlive it. `show` gets lines without their end.
  DynamicCall(const Registry& registry, kj::Function<void(kj::StringPtr)>& show)
      : registry(registry), show(show) {}
  KJ_DISALLOW_COPY_AND_MOVE(DynamicCall);

  // The results of the last step, as JSON on several lines; "{}" when it has none. InvalidArgument,
  // before anything is sent for that step: unknown method (with those that there are), or
  // parameters that are not those of the method (with line, column and path).
  kj::Promise<kj::String> run(capnp::DynamicCapability::Client target, kj::Vector<CallStep> steps);

 private:
  const Registry& registry;
  kj::Function<void(kj::StringPtr)>& show;
};

// Any message as one line of JSON. Capabilities are shown by their interface: "<Network>".
kj::String messageJson(capnp::DynamicStruct::Reader message, const Registry& registry);
// Reads parameters. InvalidArgument with `name`, line, column and path.
void readMessage(kj::StringPtr text, kj::StringPtr name, capnp::DynamicStruct::Builder message,
                 const Registry& registry);

}  // namespace talos::talosctl
