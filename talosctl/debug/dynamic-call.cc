#include "talosctl/debug/dynamic-call.h"

#include "common/base/error.h"
#include "common/base/problem.h"
#include "common/text/foreign-text.h"
#include "common/yaml/yaml.h"

namespace talos::talosctl {
namespace {

kj::String typeText(capnp::Type type) {
  if (type.isStruct()) return kj::str(type.asStruct().getShortDisplayName());
  if (type.isInterface()) return kj::str(type.asInterface().getShortDisplayName());
  if (type.isEnum()) return kj::str(type.asEnum().getShortDisplayName());
  if (type.isList()) return kj::str("List(", typeText(type.asList().getElementType()), ")");
  switch (type.which()) {
    case capnp::schema::Type::TEXT:
      return kj::str("Text");
    case capnp::schema::Type::DATA:
      return kj::str("Data");
    case capnp::schema::Type::BOOL:
      return kj::str("Bool");
    case capnp::schema::Type::ANY_POINTER:
      return kj::str("AnyPointer");
    case capnp::schema::Type::VOID:
      return kj::str("Void");
    case capnp::schema::Type::FLOAT32:
    case capnp::schema::Type::FLOAT64:
      return kj::str("Float");
    default:
      return kj::str("Int");
  }
}

kj::String fieldsText(capnp::StructSchema schema) {
  auto fields = KJ_MAP(field, schema.getFields()) {
    return kj::str(field.getProto().getName(), " :", typeText(field.getType()));
  };
  return kj::str("(", kj::strArray(fields, ", "), ")");
}

// Shows the calls of the server on a capability that the parameters contain.
class Shown final : public capnp::DynamicCapability::Server {
 public:
  Shown(capnp::InterfaceSchema schema, const Registry& registry,
        kj::Function<void(kj::StringPtr)>& show)
      : Server(schema), registry(registry), show(show) {}

  kj::Promise<void> call(
      capnp::InterfaceSchema::Method method,
      capnp::CallContext<capnp::DynamicStruct, capnp::DynamicStruct> context) override {
    // A byte source would have to return data, which this server does not have.
    if (!method.isStreaming() && method.getResultType().getFields().size() > 0) {
      return error(ErrorKind::kUnimplemented,
                   kj::str("debug call has no answer to ", method.getProto().getName()));
    }
    show(kj::str("{", jsonString(method.getProto().getName()), ":",
                 messageJson(context.getParams(), registry), "}"));
    return kj::READY_NOW;
  }

 private:
  const Registry& registry;
  kj::Function<void(kj::StringPtr)>& show;
};

kj::String pretty(kj::StringPtr json) {
  Problems problems;
  codec::YamlStream stream(json, "", problems);
  // The text may exceed the parser's limits.
  if (hasErrors(problems) || stream.documents().size() != 1) return kj::str(json);
  return codec::renderJson(*stream.documents()[0], 4);
}

capnp::InterfaceSchema::Method methodOf(capnp::InterfaceSchema schema, kj::StringPtr name) {
  KJ_IF_MAYBE (method, schema.findMethodByName(name)) return *method;
  fail(ErrorKind::kInvalidArgument,
       kj::str(schema.getShortDisplayName(), " has no method \"", name, "\"; use one of\n  ",
               kj::strArray(methodLines(schema), "\n  ")));
}

}  // namespace

kj::Vector<CallStep> callSteps(kj::ArrayPtr<const kj::String> arguments) {
  kj::Vector<CallStep> steps;
  for (auto& argument : arguments) {
    if (!argument.startsWith("{")) {
      steps.add(CallStep{kj::str(argument), kj::String()});
      continue;
    }
    if (steps.empty() || steps.back().parameters.size() > 0) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("parameters without a method: ", argument, "; name the method first"));
    }
    steps.back().parameters = kj::str(argument);
  }
  return steps;
}

kj::Array<kj::String> methodLines(capnp::InterfaceSchema schema) {
  kj::Vector<kj::String> lines;
  for (auto super : schema.getSuperclasses()) {
    for (auto& line : methodLines(super)) lines.add(kj::mv(line));
  }
  for (auto method : schema.getMethods()) {
    lines.add(
        kj::str(method.getProto().getName(), fieldsText(method.getParamType()), " -> ",
                method.isStreaming() ? kj::str("stream") : fieldsText(method.getResultType())));
  }
  return lines.releaseAsArray();
}

kj::Promise<kj::String> DynamicCall::run(capnp::DynamicCapability::Client target,
                                         kj::Vector<CallStep> steps) {
  auto at = kj::mv(target);
  for (auto i : kj::indices(steps)) {
    auto& step = steps[i];
    auto schema = at.getSchema();
    auto method = methodOf(schema, step.method);
    auto name = kj::str(schema.getShortDisplayName(), ".", step.method);
    auto request = at.newRequest(method);
    if (step.parameters.size() > 0) readMessage(step.parameters, name, request, registry);
    for (auto field : method.getParamType().getFields()) {
      if (!field.getType().isInterface()) continue;
      request.set(field, capnp::DynamicCapability::Client(
                             kj::heap<Shown>(field.getType().asInterface(), registry, show)));
    }
    auto response = co_await request.send();
    if (i + 1 == steps.size()) {
      co_return pretty(messageJson(capnp::DynamicStruct::Reader(response), registry));
    }
    kj::Maybe<capnp::DynamicCapability::Client> next;
    for (auto field : method.getResultType().getFields()) {
      if (!field.getType().isInterface() || next != nullptr) continue;
      next = response.get(field).as<capnp::DynamicCapability>();
    }
    KJ_IF_MAYBE (capability, next) {
      at = kj::mv(*capability);
    } else {
      fail(ErrorKind::kInvalidArgument, kj::str(name, " returns no capability, on which ",
                                                steps[i + 1].method, " could be called"));
    }
  }
  co_return kj::str("{}");
}

}  // namespace talos::talosctl
