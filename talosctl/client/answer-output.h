// Prints an answer as a table, YAML or JSON.
//
// JSON and YAML show one object for each node's answer: the answer's struct with "node" in front,
// or {"node", "error": {"kind", "message"}}. In an answer about a pod, "pod" follows "node". Single
// answers are indented by 4. In a stream, each answer is one line of JSON, or a YAML document after
// "---".
#pragma once

#include <initializer_list>

#include "common/yaml/yaml-codec.h"
#include "talosctl/cli/table-look.h"
#include "talosctl/client/node-answers.h"

namespace talos::talosctl {

enum class Format { kTable, kYaml, kJson };

// Declares -o/--output.
void addOutputFlag(Command& command);  // table, yaml, json
Format formatOf(const Invocation& call);

// Renders an answer with a final newline.
kj::String jsonAnswer(kj::StringPtr node, capnp::DynamicStruct::Reader value);  // indented
kj::String jsonLine(kj::StringPtr node, capnp::DynamicStruct::Reader value);
kj::String jsonFailure(const Failure& failure, unsigned indent);
// Renders an answer without the "---" between documents.
kj::String yamlAnswer(kj::StringPtr node, capnp::DynamicStruct::Reader value);
kj::String yamlFailure(const Failure& failure);

// A member of the answer of a command without a result. Its value is JSON, which YAML contains.
struct DoneMember {
  kj::StringPtr name;
  kj::String json;
};
// Prints {"node":"10.0.0.2","done":true} and the members `more`, as a line of JSON or as a YAML
// document after "---"; nothing for a table. The command has --output.
void printDone(Invocation& call, kj::StringPtr node, std::initializer_list<DoneMember> more = {});
// Prints the failure of a node of such a command in the same form.
void printFailure(Invocation& call, const Failure& failure);

// Prints many documents, with "---" between the YAML documents of a call.
class Documents {
 public:
  Documents(Invocation& call, Format format) : call(call), format(format) {}
  void answer(kj::StringPtr node, capnp::DynamicStruct::Reader value);
  void answerOfPod(kj::StringPtr node, kj::StringPtr pod, capnp::DynamicStruct::Reader value);
  void failure(const Failure& failure);
  void text(kj::StringPtr document);  // prints a rendered document

 private:
  Invocation& call;
  Format format;
};

// Converts an answer for the reflecting codec.
template <typename Results>
capnp::DynamicStruct::Reader dynamic(typename Results::Reader value) {
  return capnp::DynamicStruct::Reader(kj::mv(value));
}

// Prints one struct of a stream as YAML or JSON.
void streamRecord(Invocation& call, Format format, kj::StringPtr node,
                  capnp::DynamicStruct::Reader value);
// Prints one failure of a stream: an object on stdout in the format of the stream, and always a
// line on stderr.
void streamFailure(Invocation& call, Format format, const Failure& failure,
                   kj::StringPtr prefix = "");

// A reply and its node, as renderers take them.
template <typename Results>
struct Reply {
  kj::StringPtr node;
  typename Results::Reader value;
};

// Runs a whole unary command: calls all nodes, prints the answers in the requested form, concludes.
template <typename Results, typename F>
kj::Promise<int> tabulate(Invocation& call, F request,
                          kj::String (*render)(Invocation& call,
                                               kj::ArrayPtr<const Reply<Results>> replies)) {
  auto session = co_await openSession(call);
  auto answers = co_await askAll<Results>(*session, kj::mv(request));
  auto format = formatOf(call);
  if (format == Format::kTable) {
    auto replies = KJ_MAP(a, answers.good) {
      return Reply<Results>{a.node, a.value};
    };
    if (replies.size() > 0) outTable(call, render(call, replies));
  } else {
    Documents documents(call, format);
    for (auto& a : answers.good) documents.answer(a.node, dynamic<Results>(a.value));
    for (auto& f : answers.failures) documents.failure(f);
  }
  co_return conclude(call, answers.failures, answers.good.size(), Partial::kIsSuccess);
}

// Concludes a command without a result. If all nodes succeeded it prints nothing, except in JSON
// and YAML, where each node has an object, and on a terminal (the nodes and Invocation::done). The
// command has --output.
template <typename Results>
int concludeDone(Invocation& call, const Answers<Results>& answers) {
  if (formatOf(call) != Format::kTable) {
    for (auto& a : answers.good) printDone(call, a.node);
    for (auto& f : answers.failures) printFailure(call, f);
    call.done = kj::String();
  } else {
    auto nodes = KJ_MAP(a, answers.good) {
      return kj::StringPtr(a.node);
    };
    call.done = kj::str(kj::strArray(nodes, ", "), ": ",
                        call.done.size() > 0 ? kj::StringPtr(call.done) : "done"_kj);
  }
  return conclude(call, answers.failures, answers.good.size(), Partial::kIsFailure);
}

// Runs a whole command without a result.
template <typename Results, typename F>
kj::Promise<int> silently(Invocation& call, F request) {
  auto session = co_await openSession(call);
  auto answers = co_await askAll<Results>(*session, kj::mv(request));
  co_return concludeDone(call, answers);
}

}  // namespace talos::talosctl
