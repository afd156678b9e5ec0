// The node's containerd, service `cri`, over gRPC on its socket.
//
// Owns one connection, which is dialled again when containerd was restarted. Containers do not
// depend on it: their shims go on. containerd is root and trusted as much as the brain is; what a
// registry or a pod has put into its answers is text and numbers in bounded messages (common/grpc),
// and is treated as such.
#pragma once

#include <kj/async-io.h>

#include "common/grpc/grpc-client.h"

namespace talos::machined {

constexpr kj::StringPtr kContainerdSocket = "/run/containerd/containerd.sock"_kj;

// Containers of the node itself (etcd, kubelet), and those of pods. Every image is in the second
// one, because it is the CRI that pulls: it alone knows mirrors, credentials and CAs.
constexpr kj::StringPtr kSystemNamespace = "system"_kj, kPodNamespace = "k8s.io"_kj;

class Containerd {
 public:
  Containerd(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
             kj::StringPtr path = kContainerdSocket);
  // For tests: on whatever `dial` makes.
  Containerd(kj::Timer& timer, grpc::Client::Dial dial);
  KJ_DISALLOW_COPY_AND_MOVE(Containerd);

  // Resolves when it says that it serves; until then it is asked again, for it may be about to
  // listen. The caller has the deadline.
  kj::Promise<void> serving();

  // The deadline of calls that are neither a pull nor a stop with grace.
  static constexpr auto kDeadline = 10 * kj::SECONDS;

  template <typename Response>
  kj::Promise<Response> call(kj::StringPtr path, kj::StringPtr nameSpace,
                             const google::protobuf::MessageLite& request,
                             kj::Maybe<kj::Duration> deadline = kDeadline) {
    grpc::Metadata metadata[] = {{"containerd-namespace", nameSpace}};
    return grpc::call<Response>(client, path, metadata, deadline, request);
  }

  kj::Timer& timer;

 private:
  grpc::Client client;
};

}  // namespace talos::machined
