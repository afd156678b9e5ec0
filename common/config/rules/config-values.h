// Limits and forms of values of the machine config, for its checks and for what carries it out.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

#include "rpc/config.capnp.h"

namespace talos::config {

constexpr size_t kEncryptionKeyBytes = 32;  // size of a generated cluster.aescbcEncryptionSecret
// Limits of vip.leaseTTL: with its usual timeouts etcd grants no shorter lease.
constexpr auto kShortestVipLease = 2 * kj::SECONDS, kLongestVipLease = 60 * kj::SECONDS;
constexpr auto kDefaultVipLease = 2 * kj::SECONDS;

// Expected form of tokens, for messages.
constexpr kj::StringPtr kTokenForm =
    "use 6 characters, a dot and 16 characters, all of a-z and 0-9"_kj;
constexpr kj::StringPtr kTokenOfAnotherForm =
    "Kubernetes does not accept this bootstrap token, so no worker can join"_kj;
constexpr kj::StringPtr kEncryptionKeyForm =
    "use the output of `head -c 32 /dev/urandom | base64`"_kj;

// Form of a DUID, for messages.
constexpr kj::StringPtr kDuidForm = "for example 00:03:00:01:52:54:00:12:34:56"_kj;

constexpr size_t kMostLogDestinations = 8;
// Begins the endpoint of a receiver of events alone, as EventSinkConfig names one.
constexpr kj::StringPtr kEventSinkPrefix = "grpc://"_kj;
constexpr uint64_t kLeastLogBuffer = 1u << 20, kDefaultLogBuffer = 64u << 20,
                   kMostLogBuffer = 4ull << 30;

inline bool isControlPlane(MachineType type) {
  return type != MachineType::WORKER;
}

}  // namespace talos::config
