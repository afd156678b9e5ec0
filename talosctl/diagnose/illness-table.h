// The illnesses that `talosctl diagnose` knows, and its findings.
//
// illnesses.inc is the table: per check what it needs and which earlier checks explain it, per
// illness the cause, the remedy and the evidence. Evaluators (checks-*.cc) are pure functions of
// what was observed: they name the row that applies and the values of its placeholders. A finding
// is certain when the evidence leaves no other explanation, else likely. An evaluator runs on the
// answers that there are; what a check lacked is reported beside the findings (Check::needs).
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include <initializer_list>

#include "rpc/diagnosis.capnp.h"

namespace talos::talosctl {

using ObservedCluster = rpc::Observations::Reader;
using ObservedNode = rpc::Observations::Node::Reader;
using Reach = rpc::Observations::Node::Reach;
using Question = rpc::Observations::Question;

enum class Illness {
#define CHECK(name, layer, needs, because, evidence, ...) __VA_ARGS__,
#define ILLNESS(id, ...) id
#include "talosctl/diagnose/illnesses.inc"
#undef ILLNESS
#undef CHECK
};

enum class Certainty { kLikely, kCertain };

// Texts have {placeholders}.
struct EvidenceRow {
  kj::StringPtr source, text;  // the command that shows it
};
struct IllnessRow {
  Illness id;
  Certainty certainty;
  kj::StringPtr cause, remedy;
  std::initializer_list<EvidenceRow> evidence;  // besides the check's
};
struct Check {
  kj::StringPtr name, layer;
  std::initializer_list<Question> needs;
  // Earlier checks whose findings explain one of this: on one of the same nodes, or, with a star,
  // on any. Of several the last one counts, so causes form a chain.
  std::initializer_list<kj::StringPtr> because;
  std::initializer_list<EvidenceRow> evidence;
  std::initializer_list<IllnessRow> illnesses;
};
// In the order of the layers, from the machine to the workloads.
kj::ArrayPtr<const Check> allChecks();

// A message of a node about its own state.
struct Statement {
  kj::String source;  // the command of talosctl that shows it: "service kubelet"
  kj::String text;
  uint64_t time = 0;  // ns since 1970; 0: now
};

class Finding {
 public:
  struct Evidence {
    kj::String source, text;
    uint64_t time = 0;
  };

  Finding(const Check& check, const IllnessRow& row);

  // A node that it is about, by its address; the first one is {node}. None: the whole cluster.
  Finding& on(kj::StringPtr address);
  // The value of a placeholder.
  Finding& with(kj::StringPtr name, kj::StringPtr value, uint64_t time = 0);
  Finding& with(const Statement& statement);  // {source} and {statement}
  // Evidence besides that of the table.
  Finding& shows(kj::StringPtr source, kj::StringPtr text, uint64_t time = 0);
  Finding& certainIf(bool certain);
  // In place of the remedy of the table.
  Finding& useRemedy(kj::StringPtr remedy);
  // Checks that would explain it by the table, and do not: what was observed says something else,
  // or nothing of them.
  Finding& notBecause(std::initializer_list<kj::StringPtr> checks);
  // Somebody did this: nothing explains it.
  Finding& isItsOwnCause();

  // Once all values are known.
  void render();
  // The same finding on another node.
  bool isSameAs(const Finding& other) const;
  void absorb(Finding& other);
  kj::String remedy() const;

  const Check& check;
  const IllnessRow& row;
  kj::Vector<kj::String> nodes;
  bool certain;
  kj::String cause;
  kj::Vector<Evidence> evidence;
  kj::Vector<kj::StringPtr> unrelated;  // names of checks
  bool ownCause = false;
  kj::Maybe<size_t> parent;  // index of the finding that explains it, always a smaller one

 private:
  struct Value {
    kj::String name, text;
    uint64_t time;
  };
  kj::Vector<Value> values;
  kj::StringPtr remedyText;

  struct Filled {
    kj::String text;
    uint64_t time = 0;  // of the newest value in it
    bool known = true;  // no {node} was missing
  };
  Filled fill(kj::StringPtr text) const;
  void addEvidence(std::initializer_list<EvidenceRow> rows);
};

class Findings {
 public:
  Finding& add(Illness id);
  Finding& add(Illness id, ObservedNode node) { return add(id).on(node.getAddress()); }

  // Rendered, in the order of the checks.
  kj::Vector<kj::Own<Finding>> finish();

 private:
  kj::Vector<kj::Own<Finding>> all;
};

void checkMachines(ObservedCluster cluster, Findings& findings);
void checkNetworks(ObservedCluster cluster, Findings& findings);
void checkTrust(ObservedCluster cluster, Findings& findings);
void checkRuntimes(ObservedCluster cluster, Findings& findings);
void checkEtcd(ObservedCluster cluster, Findings& findings);
void checkControlPlane(ObservedCluster cluster, Findings& findings);
void checkKubernetes(ObservedCluster cluster, Findings& findings);

}  // namespace talos::talosctl
