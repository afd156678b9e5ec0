// Questions that several checks ask about what was observed. Pure.
#pragma once

#include <kj/time.h>

#include "talosctl/diagnose/illness-table.h"

namespace talos::talosctl {

constexpr int64_t kSecondNs = 1'000'000'000;

bool has(kj::StringPtr text, kj::StringPtr part);
bool hasAny(kj::StringPtr text, std::initializer_list<kj::StringPtr> parts);
bool lists(capnp::List<capnp::Text>::Reader list, kj::StringPtr text);
// True the first time that it is asked for `key`.
bool isFirst(kj::Vector<kj::String>& known, kj::StringPtr key);

// A node that answers questions of all kinds.
bool answers(ObservedNode node);
// It does not answer, and may be a control-plane node.
bool mayBeSilentControlPlane(ObservedNode node);
// None when none of the nodes has this address, or this name in Kubernetes.
kj::Maybe<ObservedNode> nodeAt(ObservedCluster cluster, kj::StringPtr address);
kj::Maybe<ObservedNode> nodeNamed(ObservedCluster cluster, kj::StringPtr name);
// By the clock of the node where it is known, in ns since 1970.
int64_t nowOn(ObservedCluster cluster, ObservedNode node);

kj::Maybe<rpc::Service::Reader> serviceOf(ObservedNode node, kj::StringPtr id);
bool isUp(rpc::Service::Reader service);
// A service that is not up; none when it is, or is not known.
kj::Maybe<rpc::Service::Reader> downService(ObservedNode node, kj::StringPtr id);
// The event, or the answer of the health check, that best explains why it is not up.
Statement statementOf(rpc::Service::Reader service);
// All problems that a node reports: of its services, of names, time, joining, etcd and manifests.
kj::Vector<Statement> complaintsOf(ObservedNode node);
// The reason why a kubelet waits for its certificate; none when it does not wait.
kj::Maybe<Statement> certificateWait(ObservedNode node);

// The newest line of a log that is not older than `within` and has one of these parts; empty: none.
// Only klog's lines (I1122 15:41:14.123456 …) have a time, and a level; others are taken as new.
struct LineQuery {
  std::initializer_list<kj::StringPtr> parts;
  kj::Duration within = kj::maxValue;
  bool errorsOnly = false;
  std::initializer_list<kj::StringPtr> without = {};  // lines with one of these do not count
};
kj::StringPtr newestLine(ObservedCluster cluster, ObservedNode node, kj::StringPtr log,
                         const LineQuery& query);
// The id of the kernel's log among the logs; of it only the lines about firmware are kept.
constexpr kj::StringPtr kKernelLog = "kernel"_kj;
kj::StringPtr lastLine(ObservedNode node, kj::StringPtr log);
capnp::List<capnp::Text>::Reader linesOfLog(ObservedNode node, kj::StringPtr log);
bool isRecent(ObservedCluster cluster, ObservedNode node, kj::StringPtr line, kj::Duration within);
// The newest line of a program of Kubernetes that explains its exit.
kj::StringPtr fatalLine(ObservedCluster cluster, ObservedNode node, kj::StringPtr log);
bool isArgumentError(kj::StringPtr line);

// True when each control-plane node that etcd or Kubernetes names is among those that were asked.
bool allControlPlanesAsked(ObservedCluster cluster);
// Of ManifestStatus: those of the cluster were applied; further ones may have failed.
bool isApplied(kj::StringPtr manifests);
// True when all manifests of the cluster were applied: objects that are missing have existed.
bool hasManifests(ObservedCluster cluster);

// Why a connection, or the pull of an image, has failed, by the text of the error.
enum class FailureKind {
  kOther,
  kUnknownName,   // the name servers answered that there is no such name
  kNoNameServer,  // they did not answer
  kRefused,       // nothing listens there
  kClosed,        // a forwarder, or a server that is going, ends the connection
  kUnreachable,   // no route
  kSilent,        // no answer
  kCertificate,   // of another CA, for another name, expired or not yet valid
  // of pulls alone
  kNoSuchImage,
  kReference,  // not a valid name of an image
  kCredentials,
  kMirrors,  // none of its mirrors has it, and the registry itself cannot be reached
};
FailureKind failureOf(kj::StringPtr text);
FailureKind pullFailureOf(kj::StringPtr text);
kj::StringPtr describe(FailureKind failure);  // "nothing listens there"

// host:port of https://host:port/, without brackets; the port is 443 when none is said.
struct HostPort {
  kj::String host;
  uint16_t port = 443;
};
HostPort hostOf(kj::StringPtr url);

kj::String dayOf(int64_t seconds);                         // "2026-11-22"
kj::String validity(int64_t notBefore, int64_t notAfter);  // "valid from … until …"
kj::String clockDifference(int64_t nanoseconds);           // "3 days ahead of", "2 years behind"
kj::String reasonText(kj::StringPtr reason, kj::StringPtr message);  // "reason: message"

}  // namespace talos::talosctl
