// What kubed tells of Kubernetes to whoever asks the node (rpc/kubernetes.capnp).
//
// One survey is read at a time, for a cluster may be large; those who ask meanwhile share the next
// one, so each has what was read after it had asked. The newest stays in memory until the next.
#pragma once

#include <capnp/message.h>
#include <kj/function.h>

#include "rpc/kubernetes.capnp.h"

namespace talos::kubed {

class SurveyServer final : public rpc::Kubernetes::Server {
 public:
  using Message = kj::Own<capnp::MallocMessageBuilder>;
  // Its root is a Survey.
  explicit SurveyServer(kj::Function<kj::Promise<Message>()> read) : read(kj::mv(read)) {}

  kj::Promise<void> survey(SurveyContext context) override;

 private:
  struct Shared;
  kj::Function<kj::Promise<Message>()> read;
  kj::Maybe<kj::ForkedPromise<kj::Own<Shared>>> running, next;

  kj::Promise<kj::Own<Shared>> begin();
};

}  // namespace talos::kubed
