#include "kubed/nodes/survey-server.h"

#include <kj/refcount.h>

namespace talos::kubed {

struct SurveyServer::Shared final : public kj::Refcounted {
  explicit Shared(Message message) : message(kj::mv(message)) {}
  kj::Own<Shared> addRef() { return kj::addRef(*this); }  // of a forked promise
  Message message;
};

kj::Promise<kj::Own<SurveyServer::Shared>> SurveyServer::begin() {
  running = kj::mv(next);
  next = nullptr;
  return read().then([](Message&& message) { return kj::refcounted<Shared>(kj::mv(message)); });
}

kj::Promise<void> SurveyServer::survey(SurveyContext context) {
  if (next == nullptr) {
    kj::Promise<void> turn = kj::READY_NOW;
    KJ_IF_MAYBE (before, running) {
      turn = before->addBranch().ignoreResult().catch_([](kj::Exception&&) {});
    }
    next = turn.then([this]() { return begin(); }).fork();
  }
  auto shared = co_await KJ_ASSERT_NONNULL(next).addBranch();
  context.getResults().setSurvey(shared->message->getRoot<rpc::Survey>());
}

}  // namespace talos::kubed
