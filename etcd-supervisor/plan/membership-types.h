// Values on which decisions about membership are based.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

#include "common/etcd/etcd.h"

namespace talos::supervisor {

constexpr kj::StringPtr kDataFolder = "/var/lib/etcd"_kj;

struct Argument {
  kj::String key, value;
  bool operator==(const Argument&) const = default;
};

// Fields of EtcdConfigs/etcd.
struct Config {
  kj::String name;   // name of the member
  kj::String image;  // empty for etcd of the system
  kj::Vector<Argument> extraArgs;
  kj::Vector<kj::String> addresses;        // this node's, the advertised one first
  kj::Vector<kj::String> listenAddresses;  // empty for every address
  kj::Vector<kj::String> peers;            // names or addresses of the other control-plane nodes
  kj::Vector<kj::String> shared;           // addresses that move between the control-plane nodes
  bool bootstraps = false;
  uint64_t version = 0;  // of the resource
  // Not from the config: this node's member as last observed; 0: not known, or not a member.
  etcd::MemberId member = 0;

  Config clone() const;
};

// Fields of EtcdSpecs/etcd.
struct Wanted {
  kj::String waitsFor;
  kj::String image;
  kj::Vector<Argument> arguments;
  kj::String recoverFrom;
  bool skipHashCheck = false;
  uint64_t configVersion = 0;  // version of the config from which the arguments were made
  kj::Vector<kj::String> formerAddresses;
  kj::String proxy;

  bool operator==(const Wanted& other) const;
};

// State of the data directory. etcd creates `member/wal` complete, by a rename; before that it has
// made no promise to any client, and would start from nothing.
enum class Data { kNone, kPartial, kWhole };

// State of a node, as it reports it to others.
struct BootstrapState {
  enum class State {
    kNone,    // next: kClaims, kMember
    kClaims,  // next: kMakes; kNone or kMember if another node was first
    kMakes,   // next: kMember; kNone if its snapshot cannot be restored
    kMember,  // joins a cluster, or has data of one. Next: kNone after it has left
  };
  kj::String name;
  State state = State::kNone;
  uint64_t cluster = 0;
  int64_t since = 0;  // start of a claim
};

// Answer of one address of another node.
struct PeerAnswer {
  kj::String host;     // from the config, followed by the address if it differs
  kj::String address;  // empty if the name does not resolve
  bool shared = false;
  kj::OneOf<BootstrapState, kj::String> said;  // or the error
};

// A member, and whether it has just answered a probe.
struct MemberProbe {
  etcd::Member member;
  bool answers = false;
  kj::String problem = nullptr;  // why it did not answer
};

// Returns "10.0.0.2" for "https://10.0.0.2:2379", "fd00::1" for "https://[fd00::1]:2379"; empty if
// it is not such a URL.
kj::String hostOf(kj::StringPtr url);
kj::String urlOf(kj::StringPtr address, uint16_t port);
// Returns the name of a member for users, or its id if it has no name yet.
kj::String describe(const etcd::Member& member);
kj::String hex(etcd::MemberId id);
kj::String joined(kj::ArrayPtr<const kj::String> texts);

etcd::Member clone(const etcd::Member& member);

}  // namespace talos::supervisor
