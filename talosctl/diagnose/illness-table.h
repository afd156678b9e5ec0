// The faults that `talosctl diagnose` knows, and its findings.
//
// illnesses.inc is the table. It has for each check the required input and the earlier checks that
// explain it, and for each fault the cause, the remedy and the evidence. Evaluators (checks-*.cc)
// are pure functions of the observations: they name the row that applies and the values of its
// placeholders. A finding is certain if the evidence leaves no other explanation, otherwise likely.
// An evaluator runs on the available answers; input that a check lacked is reported beside the
// findings (Check::needs).
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

// An item of evidence; texts have {placeholders}.
struct EvidenceRow {
  kj::StringPtr source, text;  // the command that shows it
};
struct IllnessRow {
  Illness id;
  Certainty certainty;
  kj::StringPtr cause, remedy;
  std::initializer_list<EvidenceRow> evidence;  // evidence beyond the check's evidence
};
struct Check {
  kj::StringPtr name, layer;
  std::initializer_list<Question> needs;
  // Earlier checks whose findings explain a finding of this check: on one of the same nodes or,
  // with a star, on any node. If several apply, the last one counts, so causes form a chain.
  std::initializer_list<kj::StringPtr> because;
  std::initializer_list<EvidenceRow> evidence;
  std::initializer_list<IllnessRow> illnesses;
};
// Returns the checks in the order of the layers, from the machine to the workloads.
kj::ArrayPtr<const Check> allChecks();

// A message of a node about its own state.
struct Statement {
  kj::String source;  // talosctl command that shows the message: "service kubelet"
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

  // Adds a node that the finding concerns, by its address; the first node is {node}. Without nodes,
  // the finding concerns the whole cluster.
  Finding& on(kj::StringPtr address);
  // Sets the value of a placeholder.
  Finding& with(kj::StringPtr name, kj::StringPtr value, uint64_t time = 0);
  Finding& with(const Statement& statement);  // {source} and {statement}
  // Adds evidence beyond that of the table.
  Finding& shows(kj::StringPtr source, kj::StringPtr text, uint64_t time = 0);
  Finding& certainIf(bool certain);
  // Replaces the remedy of the table.
  Finding& useRemedy(kj::StringPtr remedy);
  // Excludes checks that could explain the finding by the table: the observations contradict them,
  // or do not support them.
  Finding& notBecause(std::initializer_list<kj::StringPtr> checks);
  // Marks the finding as a deliberate change: no other finding explains it.
  Finding& isItsOwnCause();
  // Places the finding before all findings of another check of the layer, which it may explain.
  Finding& precedes(kj::StringPtr check);
  // Adds checks that explain the finding beside those of the table (Check::because), if their
  // findings precede it.
  Finding& alsoBecause(std::initializer_list<kj::StringPtr> checks);

  // Fills in the texts; to be called when all values are known.
  void render();
  // Returns true if `other` is the same finding on another node.
  bool isSameAs(const Finding& other) const;
  void absorb(Finding& other);
  kj::String remedy() const;

  const Check& check;
  const IllnessRow& row;
  kj::Vector<kj::String> nodes;
  bool certain;
  kj::String cause;
  kj::Vector<Evidence> evidence;
  kj::Vector<kj::StringPtr> unrelated, moreCauses;  // names of checks
  bool ownCause = false;
  // The finding is placed among those of this check, and before them if it precedes them.
  const Check* place;
  bool isEarly = false;
  kj::Maybe<size_t> parent;  // index of the finding that explains this one, always a smaller index

 private:
  struct Value {
    kj::String name, text;
    uint64_t time;
  };
  kj::Vector<Value> values;
  kj::StringPtr remedyText;

  struct Filled {
    kj::String text;
    uint64_t time = 0;  // time of the newest value in the text
    bool known = true;  // no {node} was missing
  };
  Filled fill(kj::StringPtr text) const;
  void addEvidence(std::initializer_list<EvidenceRow> rows);
};

class Findings {
 public:
  Finding& add(Illness id);
  Finding& add(Illness id, ObservedNode node) { return add(id).on(node.getAddress()); }

  // Returns the rendered findings in the order of the checks and of Finding::precedes().
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
