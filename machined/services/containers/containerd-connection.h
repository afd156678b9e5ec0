// The node's containerd, service `cri`, over gRPC on its socket.
//
// Owns one connection, which is dialled again after a restart of containerd. Containers do not
// depend on it: their shims continue. containerd runs as root and is trusted as much as the brain;
// text and numbers from a registry or a pod in its answers are in bounded messages (common/grpc),
// and are not trusted.
#pragma once

#include <kj/async-io.h>

#include "common/grpc/grpc-client.h"

namespace talos::machined {

constexpr kj::StringPtr kContainerdSocket = "/run/containerd/containerd.sock"_kj;

// Containers of the node itself (etcd, kubelet), and those of pods. Every image is in the second
// namespace, because the CRI pulls all images: only the CRI knows mirrors, credentials and CAs.
constexpr kj::StringPtr kSystemNamespace = "system"_kj, kPodNamespace = "k8s.io"_kj;

class Containerd {
 public:
  Containerd(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
             kj::StringPtr path = kContainerdSocket);
  // For tests: uses the connections that `dial` makes.
  Containerd(kj::Timer& timer, grpc::Client::Dial dial);
  KJ_DISALLOW_COPY_AND_MOVE(Containerd);

  // Resolves when containerd reports that it serves; until then the call is retried, because
  // containerd may be about to listen. The caller sets the deadline.
  kj::Promise<void> serving();

  // Deadline of calls that are neither a pull nor a stop with grace.
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
