// Questions that several checks ask about what was seen. Pure.
#pragma once

#include <kj/map.h>
#include <kj/time.h>

#include "talosctl/diagnose/illness-table.h"

namespace talos::talosctl {

bool has(kj::StringPtr text, kj::StringPtr part);
bool hasAny(kj::StringPtr text, std::initializer_list<kj::StringPtr> parts);

// A node that tells all that it is asked.
bool answers(SeenNode node);
bool isControlPlane(SeenNode node);
// The node itself, or nothing when none of them has this address, or this name in Kubernetes.
kj::Maybe<SeenNode> nodeAt(Seen seen, kj::StringPtr address);
kj::Maybe<SeenNode> nodeNamed(Seen seen, kj::StringPtr name);

kj::Maybe<rpc::Service::Reader> serviceOf(SeenNode node, kj::StringPtr id);
bool isUp(rpc::Service::Reader service);
// The event, or the answer of the health check, that says best why it is not up.
struct Told {
  kj::StringPtr text;
  uint64_t time = 0;
};
Told tells(rpc::Service::Reader service);
// What a kubelet that has no certificate yet waits for; none when it does not.
kj::Maybe<Told> certificateWait(SeenNode node);

// The newest line with one of these words; empty: none.
kj::StringPtr newestLine(SeenNode node, kj::StringPtr log,
                         std::initializer_list<kj::StringPtr> words);
kj::StringPtr lastLine(SeenNode node, kj::StringPtr log);

// Whether the kubelet, or another program with klog's lines (I1122 15:41:14.123456 …), wrote the
// line within this time before the node's clock; without a time in it, it is taken as new.
bool isRecent(Seen seen, SeenNode node, kj::StringPtr line, kj::Duration within);

// The newest line of a program of Kubernetes, not older than that, that says why it has ended.
kj::StringPtr fatalLine(Seen seen, SeenNode node, kj::StringPtr log);

// Whether each control-plane node that etcd or Kubernetes names is among those that were asked.
bool allControlPlanesAsked(Seen seen);
// Whether the cluster has been given all that it begins with: what is missing was there once.
bool hasManifests(Seen seen);

// What a message of a failed connection says.
enum class DialFailure {
  kOther,
  kUnknownName,   // the name servers answered that there is no such name
  kNoNameServer,  // they did not answer
  kRefused,       // nothing listens there
  kUnreachable,   // no route
  kSilent,        // no answer
  kCertificate,   // of another CA, for another name, or out of its times
};
DialFailure failureOf(kj::StringPtr text);
kj::StringPtr wordsOf(DialFailure failure);  // "nothing listens there"

// Everything that a node says about what it cannot do: of its services, of names, time, joining,
// etcd and manifests, with the command that shows it.
struct Complaint {
  kj::String source;  // service kubelet
  kj::String text;
  uint64_t time = 0;
};
kj::Vector<Complaint> complaintsOf(SeenNode node);

// host:port of https://host:port/, without brackets; the port is 443 when none is said.
struct HostPort {
  kj::String host;
  uint16_t port = 443;
};
HostPort hostOf(kj::StringPtr url);

// talosctl -n ADDRESS patch machineconfig … that sets one value of the config.
kj::String setInConfig(SeenNode node, kj::StringPtr path, kj::StringPtr value);

// "3 days", "2 years": how far two clocks are apart.
kj::String apart(int64_t nanoseconds);

}  // namespace talos::talosctl
