#include "talosctl/client/answer-output.h"

#include "common/base/lines.h"
#include "common/text/foreign-text.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

namespace {

// Inserts a member at the front of an object such as {"a":1}.
kj::String withFirst(kj::StringPtr member, kj::String object, unsigned indent) {
  auto blank = indent == 0 ? kj::str() : kj::str("\n", kj::repeat(' ', indent));
  size_t open = KJ_ASSERT_NONNULL(object.findFirst('{'));
  kj::StringPtr rest = object.slice(open + 1);
  size_t at = 0;
  while (at < rest.size() && (rest[at] == ' ' || rest[at] == '\n')) ++at;
  bool empty = at < rest.size() && rest[at] == '}';
  auto tail = empty ? kj::str(indent == 0 ? "" : "\n", "}") : kj::str(",", withoutLastBreaks(rest));
  return kj::str("{", blank, member, tail, "\n");
}

kj::String nodeMember(kj::StringPtr node, unsigned indent) {
  return kj::str("\"node\":", indent == 0 ? "" : " ", jsonString(node));
}

}  // namespace

void addOutputFlag(Command& command) {
  command.flag({.name = "output",
                .letter = "o",
                .kind = FlagKind::kText,
                .fallback = "table",
                .help = "output format",
                .choices = {"table", "yaml", "json"}});
}

Format formatOf(const Invocation& call) {
  if (call.declared("json") && call.on("json")) return Format::kJson;
  auto text = call.text("output");
  return text == "json" ? Format::kJson : text == "yaml" ? Format::kYaml : Format::kTable;
}

kj::String jsonAnswer(kj::StringPtr node, capnp::DynamicStruct::Reader value) {
  return withFirst(nodeMember(node, 4), codec::writeJson(value, {.indent = 4}), 4);
}

kj::String jsonLine(kj::StringPtr node, capnp::DynamicStruct::Reader value) {
  return withFirst(nodeMember(node, 0), codec::writeJson(value, {.indent = 0}), 0);
}

kj::String jsonFailure(const Failure& failure, unsigned indent) {
  auto kind = jsonString(nameOf(kindOf(failure.cause)));
  auto message = jsonString(messageOf(failure.cause));
  auto node = jsonString(failure.node);
  if (indent == 0) {
    return kj::str("{\"node\":", node, ",\"error\":{\"kind\":", kind, ",\"message\":", message,
                   "}}\n");
  }
  return kj::str("{\n    \"node\": ", node, ",\n    \"error\": {\n        \"kind\": ", kind,
                 ",\n        \"message\": ", message, "\n    }\n}\n");
}

kj::String yamlAnswer(kj::StringPtr node, capnp::DynamicStruct::Reader value) {
  auto body = codec::writeYaml(value);
  return kj::str("node: ", codec::yamlScalar(node), "\n",
                 body == "{}\n" ? kj::str() : kj::mv(body));
}

kj::String yamlFailure(const Failure& failure) {
  return kj::str("node: ", codec::yamlScalar(failure.node),
                 "\nerror:\n    kind: ", nameOf(kindOf(failure.cause)),
                 "\n    message: ", codec::yamlScalar(messageOf(failure.cause)), "\n");
}

void printDone(Invocation& call, kj::StringPtr node, std::initializer_list<DoneMember> more) {
  auto format = formatOf(call);
  if (format == Format::kTable) return;
  bool json = format == Format::kJson;
  kj::Vector<kj::String> members;
  for (auto& member : more) {
    members.add(json ? kj::str(",\"", member.name, "\":", member.json)
                     : kj::str(member.name, ": ", member.json, "\n"));
  }
  auto rest = kj::strArray(members, "");
  call.out(json ? kj::str("{\"node\":", jsonString(node), ",\"done\":true", rest, "}\n")
                : kj::str("---\nnode: ", codec::yamlScalar(node), "\ndone: true\n", rest));
}

void printFailure(Invocation& call, const Failure& failure) {
  auto format = formatOf(call);
  if (format == Format::kJson) call.out(jsonFailure(failure, 0));
  if (format == Format::kYaml) call.outBytes(kj::str("---\n", yamlFailure(failure)));
}

void Documents::answer(kj::StringPtr node, capnp::DynamicStruct::Reader value) {
  text(format == Format::kJson ? jsonAnswer(node, value) : yamlAnswer(node, value));
}

void Documents::answerOfPod(kj::StringPtr node, kj::StringPtr pod,
                            capnp::DynamicStruct::Reader value) {
  if (format == Format::kJson) {
    auto member = kj::str("\"pod\": ", jsonString(pod));
    auto object = withFirst(member, codec::writeJson(value, {.indent = 4}), 4);
    text(withFirst(nodeMember(node, 4), kj::mv(object), 4));
  } else {
    auto body = codec::writeYaml(value);
    text(kj::str("node: ", codec::yamlScalar(node), "\npod: ", codec::yamlScalar(pod), "\n",
                 body == "{}\n" ? kj::str() : kj::mv(body)));
  }
}

void Documents::failure(const Failure& failure) {
  text(format == Format::kJson ? jsonFailure(failure, 4) : yamlFailure(failure));
}

void Documents::text(kj::StringPtr document) {
  if (call.hasDocument && format == Format::kYaml) call.out("---\n");
  call.hasDocument = true;
  call.outBytes(document);
}

void streamRecord(Invocation& call, Format format, kj::StringPtr node,
                  capnp::DynamicStruct::Reader value) {
  call.outBytes(format == Format::kJson ? jsonLine(node, value)
                                        : kj::str("---\n", yamlAnswer(node, value)));
}

void streamFailure(Invocation& call, Format format, const Failure& failure, kj::StringPtr prefix) {
  if (format == Format::kJson) call.out(jsonFailure(failure, 0));
  if (format == Format::kYaml) call.outBytes(kj::str("---\n", yamlFailure(failure)));
  call.err(kj::str(prefix, describe(failure), "\n"));
}

}  // namespace talos::talosctl
