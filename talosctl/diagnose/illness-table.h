// What a check of `talosctl diagnose` is: a row of one table and a pure function of what was seen.
//
// A check looks at the whole cluster and adds findings. It names as a cause only what it has seen:
// what merely follows from something else is said in the table (Check::because) and shown there. A
// finding is certain when the evidence leaves no other explanation, else likely. A check of which
// some questions were not answered still runs on what there is; that it was not made in full is
// told beside the findings, by the table (Check::needs).
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include <initializer_list>

#include "rpc/diagnosis.capnp.h"

namespace talos::talosctl {

using Seen = rpc::Observations::Reader;
using SeenNode = rpc::Observations::Node::Reader;
using Reach = rpc::Observations::Node::Reach;
using Question = rpc::Observations::Question;

struct Check;

struct Evidence {
  kj::String source;  // the command that shows it
  kj::String text;
  uint64_t time = 0;  // ns since 1970; 0: now
};

struct Finding {
  const Check* check = nullptr;
  kj::Vector<kj::String> nodes;  // addresses; none: it is about the cluster
  bool certain = false;
  kj::String summary;
  kj::Vector<Evidence> evidence;
  kj::String command;
  kj::Maybe<size_t> cause;  // index of the finding that explains it, always a smaller one

  // `what` of talosctl on the node: "service kubelet". An empty text is no evidence.
  Finding& shows(SeenNode node, kj::StringPtr what, kj::StringPtr text, uint64_t time = 0);
  Finding& shows(kj::StringPtr source, kj::StringPtr text, uint64_t time = 0);
  Finding& mend(kj::String command);
  Finding& mend(SeenNode node, kj::StringPtr what);  // talosctl -n ADDRESS WHAT
};

class Report {
 public:
  Finding& certain(SeenNode node, kj::String summary);
  Finding& likely(SeenNode node, kj::String summary);
  Finding& certain(kj::String summary);  // about the cluster
  Finding& likely(kj::String summary);

  void begin(const Check& check) { current = &check; }
  kj::Vector<kj::Own<Finding>> findings;

 private:
  const Check* current = nullptr;
  Finding& add(bool certain, kj::String summary);
};

struct Check {
  kj::StringPtr name;
  kj::StringPtr layer;
  void (*run)(Seen seen, Report& report);
  std::initializer_list<Question> needs = {};
  // Names of earlier checks whose findings explain one of this: on one of the same nodes, or, with
  // a star in front, anywhere. Of several the last one counts, so causes form a chain.
  std::initializer_list<kj::StringPtr> because = {};
};

// In the order of the layers, from the machine to the workloads.
kj::ArrayPtr<const Check> allChecks();

#define CHECK_FUNCTION(function) void function(Seen seen, Report& report);
#define CHECK(name, layer, function, needs, because) CHECK_FUNCTION(function)
#define LIST(...)
#include "talosctl/diagnose/illnesses.inc"
#undef LIST
#undef CHECK
#undef CHECK_FUNCTION

}  // namespace talos::talosctl
