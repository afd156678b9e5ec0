// Calls methods of an interface by name, with JSON, by its schema: the part of `talosctl debug
// call` after the connection.
//
// A call is a chain: all methods but the last return a capability, on which the next method is
// called. The parameters are JSON or YAML with the schema's names; a Resource's spec is read and
// shown as the struct of its type. Capabilities that parameters require (LogSink, ByteSink) are
// created here: each call of the server on such a capability is shown as a line of JSON. $secret
// fields are shown as "***".
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
  kj::String parameters;  // "{…}"; empty: no parameters
};
// Converts arguments to steps: an argument that begins with "{" has the parameters of the method
// before it. InvalidArgument if there is no such method.
kj::Vector<CallStep> callSteps(kj::ArrayPtr<const kj::String> arguments);

// Returns a line for each method, in the order of the schema: "read(id :Text, sink :LogSink) ->
// ()".
kj::Array<kj::String> methodLines(capnp::InterfaceSchema schema);

class DynamicCall {
 public:
  // Both arguments must outlive this object. `show` is called with lines without their line end.
  DynamicCall(const Registry& registry, kj::Function<void(kj::StringPtr)>& show)
      : registry(registry), show(show) {}
  KJ_DISALLOW_COPY_AND_MOVE(DynamicCall);

  // Returns the results of the last step, as JSON on several lines; "{}" if it has no results.
  // InvalidArgument, before anything is sent for this step, for an unknown method (with the known
  // methods), or for parameters that do not match the method (with line, column and path).
  kj::Promise<kj::String> run(capnp::DynamicCapability::Client target, kj::Vector<CallStep> steps);

 private:
  const Registry& registry;
  kj::Function<void(kj::StringPtr)>& show;
};

// Returns any message as one line of JSON. Capabilities are shown by their interface: "<Network>".
kj::String messageJson(capnp::DynamicStruct::Reader message, const Registry& registry);
// Reads parameters. InvalidArgument with `name`, line, column and path.
void readMessage(kj::StringPtr text, kj::StringPtr name, capnp::DynamicStruct::Builder message,
                 const Registry& registry);

}  // namespace talos::talosctl
