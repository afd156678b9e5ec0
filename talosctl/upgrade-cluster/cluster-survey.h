// The state of a cluster before and while its nodes are upgraded, and the judgement of it. Pure:
// from what the nodes, etcd and Kubernetes answered to findings, each with its node and what to do.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::talosctl {

// UpgradeStatuses/node, as docs/upgrades.md explains it.
struct UpgradeState {
  kj::String stage, slot, version, image, digest, reason;

  bool isUnderWay() const;
};

struct NodeSurvey {
  kj::String address;             // as it is called
  kj::Maybe<kj::String> silence;  // why it did not answer; most of the rest is empty then
  kj::String hostname, version, bootId;
  bool controlPlane = false;
  kj::String stage;                 // of the machine: running, booting …
  kj::Vector<kj::String> problems;  // of the machine
  kj::Maybe<UpgradeState> upgrade;  // none: its system has no such state
  kj::Maybe<uint64_t> freeBytes;    // of /var
  // Of a control-plane node.
  kj::String etcdPhase, etcdMessage;
  kj::Maybe<uint64_t> etcdApplied;  // index; none: its etcd did not answer
  kj::Vector<kj::String> holds;     // shared addresses
};

struct EtcdSurvey {
  struct Member {
    kj::String name, problem;
    bool learner = false, leader = false;
  };
  kj::String problem;  // why the rest is not known
  bool quorum = false;
  kj::Vector<Member> members;
  kj::Vector<kj::String> alarms;  // "m-1: NOSPACE"
};

struct KubernetesSurvey {
  struct Node {
    kj::String name, address, reason;
    bool ready = false, unschedulable = false, controlPlane = false;
  };
  struct Budget {
    kj::String name;  // namespace/name
    uint32_t allowed = 0;
    struct Pod {
      kj::String name, node;
    };
    kj::Vector<Pod> pods;
  };
  kj::String problem;  // why the rest is not known
  kj::Vector<Node> nodes;
  kj::Vector<Budget> budgets;
  kj::Vector<kj::String> unread;  // parts that could not be read, and why

  kj::Maybe<const Node&> at(const NodeSurvey& node) const;
};

struct ClusterSurvey {
  kj::Vector<NodeSurvey> nodes;
  kj::Maybe<EtcdSurvey> etcd;              // none: there is no control-plane node among them
  kj::Maybe<KubernetesSurvey> kubernetes;  // none: it was not asked

  kj::Maybe<const NodeSurvey&> at(kj::StringPtr address) const;
  bool leads(const NodeSurvey& node) const;  // its member of etcd is the leader
};

// The image that the nodes are to run, as far as it is known.
struct TargetImage {
  kj::String text;             // as the user gave it
  kj::String digest, version;  // empty: not known yet
};

enum class NodeAction {
  kNone,     // it runs the image
  kFollow,   // its upgrade to that image is under way
  kUpgrade,  // it runs another one
};
// The target is known.
NodeAction actionFor(const NodeSurvey& node, const TargetImage& target);

struct PreflightFinding {
  enum class Kind {
    kWarning,
    kStops,
    kStopsIfItStays,  // it passes by itself after a restart: of a node, its kubelet, a member
  };
  Kind kind;
  kj::String node;  // empty: the cluster
  kj::String text, remedy;
  bool stops() const { return kind != Kind::kWarning; }
  kj::String line() const;  // "10.5.0.2: it does not answer; start it"
};
struct SurveyOptions {
  bool ignoreBudgets = false;
};
// Nodes that run the target already are judged too: the others rely on them.
kj::Vector<PreflightFinding> judgeSurvey(const ClusterSurvey& survey, const TargetImage& target,
                                         const SurveyOptions& options);

// The answer of a node that was asked to fetch the image.
struct FetchOutcome {
  kj::String node;
  kj::String error;      // empty: it has it
  bool unknown = false;  // its system is older than that question
  kj::String digest, version;
  bool isSigned = false;  // by the key of its config
};
kj::Vector<PreflightFinding> judgeFetches(kj::ArrayPtr<const FetchOutcome> fetches,
                                          const ClusterSurvey& survey);

// Why the next node has to wait, or nothing. `away`: nodes that are being upgraded, of which
// nothing is expected.
kj::Maybe<kj::String> reasonToWait(const ClusterSurvey& survey,
                                   kj::ArrayPtr<const kj::StringPtr> away);
// Budgets that forbid that pods leave this node now.
kj::Maybe<kj::String> reasonNotToDrain(const ClusterSurvey& survey, kj::StringPtr address);
// So far an etcd may be behind the others, in entries of its log, and count as caught up: under
// load the answers of two members are some apart.
constexpr uint64_t kMostEtcdLag = 500;

}  // namespace talos::talosctl
