// Serves surveys of the cluster (rpc/kubernetes.capnp).
//
// One survey is read at a time, because a cluster may be large; callers that arrive meanwhile share
// the next one, so each gets data that was read after its call. The newest survey stays in memory
// until the next one.
#pragma once

#include <capnp/message.h>
#include <kj/function.h>

#include "rpc/kubernetes.capnp.h"

namespace talos::kubed {

class SurveyServer : public rpc::Kubernetes::Server {
 public:
  using Message = kj::Own<capnp::MallocMessageBuilder>;
  // Its root is a Survey.
  explicit SurveyServer(kj::Function<kj::Promise<Message>()> read) : read(kj::mv(read)) {}
  virtual ~SurveyServer() noexcept(false) = default;

  kj::Promise<void> survey(SurveyContext context) override;

 private:
  struct Shared;
  kj::Function<kj::Promise<Message>()> read;
  kj::Maybe<kj::ForkedPromise<kj::Own<Shared>>> running, next;

  kj::Promise<kj::Own<Shared>> begin();
};

}  // namespace talos::kubed
