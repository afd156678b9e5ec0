// The state of a cluster before and during the upgrade of its nodes, and its judgement. Pure: turns
// the answers of the nodes, etcd and Kubernetes into findings, each with its node and the remedy.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::talosctl {

// Content of UpgradeStatuses/node, as docs/upgrades.md explains it.
struct UpgradeState {
  kj::String stage, slot, version, image, digest, reason;

  bool isUnderWay() const;
};

struct NodeSurvey {
  kj::String address;             // address used in calls
  kj::Maybe<kj::String> silence;  // reason for a missing answer; most other fields are then empty
  kj::String hostname, version, bootId;
  bool controlPlane = false;
  kj::String stage;                 // stage of the machine: running, booting …
  kj::Vector<kj::String> problems;  // problems of the machine
  kj::Maybe<UpgradeState> upgrade;  // nullptr: its system does not report it
  kj::Maybe<uint64_t> freeBytes;    // free space of /var
  // The fields below are for control-plane nodes.
  kj::String etcdPhase, etcdMessage;
  kj::Maybe<uint64_t> etcdApplied;         // index; nullptr: its etcd did not answer
  kj::Vector<kj::String> sharedAddresses;  // shared addresses that the node holds
};

struct EtcdSurvey {
  struct Member {
    kj::String name, problem;
    bool learner = false, leader = false;
  };
  kj::String problem;  // reason for unknown fields
  bool quorum = false;
  kj::Vector<Member> members;
  kj::Vector<kj::String> alarms;  // such as "m-1: NOSPACE"
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
  kj::String problem;  // reason for unknown fields
  kj::Vector<Node> nodes;
  kj::Vector<Budget> budgets;
  kj::Vector<kj::String> unread;  // parts that could not be read, with reasons

  kj::Maybe<const Node&> at(const NodeSurvey& node) const;
};

struct ClusterSurvey {
  kj::Vector<NodeSurvey> nodes;
  kj::Maybe<EtcdSurvey> etcd;              // nullptr: no control-plane node among the nodes
  kj::Maybe<KubernetesSurvey> kubernetes;  // nullptr: not requested

  kj::Maybe<const NodeSurvey&> at(kj::StringPtr address) const;
  bool leads(const NodeSurvey& node) const;  // true if its etcd member is the leader
};

// The image that the nodes should run, as far as it is known.
struct TargetImage {
  kj::String text;             // text of the user
  kj::String digest, version;  // empty: not known yet
};

enum class NodeAction {
  kNone,     // the node runs the image
  kFollow,   // its upgrade to the image is under way
  kUpgrade,  // the node runs another image
};
// Returns the action for a node. The target must be known.
NodeAction actionFor(const NodeSurvey& node, const TargetImage& target);

struct PreflightFinding {
  enum class Kind {
    kWarning,
    kStops,
    kStopsIfItStays,  // disappears after a restart of a node, its kubelet or an etcd member
  };
  Kind kind;
  kj::String node;  // empty: the whole cluster
  kj::String text, remedy;
  bool stops() const { return kind != Kind::kWarning; }
  kj::String line() const;  // returns "10.5.0.2: it does not answer; start it"
};
struct SurveyOptions {
  bool ignoreBudgets = false, live = false;
};
// Judges all nodes. Nodes that run the target already are judged too, because the others rely on
// them.
kj::Vector<PreflightFinding> judgeSurvey(const ClusterSurvey& survey, const TargetImage& target,
                                         const SurveyOptions& options);

// The answer of a node to the request to fetch the image.
struct FetchOutcome {
  kj::String node;
  kj::String error;      // empty: the node has the image
  bool unknown = false;  // the node's system is too old for this request
  kj::String digest, version;
  bool isSigned = false;  // signed with the key in the node's config
};
kj::Vector<PreflightFinding> judgeFetches(kj::ArrayPtr<const FetchOutcome> fetches,
                                          const ClusterSurvey& survey);

// Returns the reason why the next node has to wait, or nullptr. `away`: nodes that are being
// upgraded, which may fail any check.
kj::Maybe<kj::String> reasonToWait(const ClusterSurvey& survey,
                                   kj::ArrayPtr<const kj::StringPtr> away);
// Returns the budgets that forbid to evict the pods of this node now.
kj::Maybe<kj::String> reasonNotToDrain(const ClusterSurvey& survey, kj::StringPtr address);
// Largest lag, in entries of its log, with which an etcd counts as caught up: under load, the
// answers of two members differ by some entries.
constexpr uint64_t kMostEtcdLag = 500;

}  // namespace talos::talosctl
