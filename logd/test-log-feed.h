// For tests: the logs of a machine. follow() is answered with the sink that the test writes to.
#pragma once

#include "rpc/local.capnp.h"

namespace talos::logd {

struct FeedModel {
  kj::String boot = kj::str("boot-1");
  kj::Maybe<rpc::LogFeedSink::Client> sink;
  uint64_t known = 0;  // position of the log "a" that was asked for
  unsigned follows = 0;
  kj::Own<kj::PromiseFulfiller<void>> end;
};

class FeedServer final : public rpc::LogFeed::Server {
 public:
  explicit FeedServer(FeedModel& model) : model(model) {}
  kj::Promise<void> follow(FollowContext context) override {
    auto params = context.getParams();
    model.known = 0;
    for (auto known : params.getKnown()) {
      if (kj::StringPtr(known.getId()) == "a") model.known = known.getNext();
    }
    ++model.follows;
    auto begin = params.getSink().beginRequest();
    begin.setBoot(model.boot);
    co_await begin.send().ignoreResult();
    model.sink = params.getSink();
    auto paf = kj::newPromiseAndFulfiller<void>();
    model.end = kj::mv(paf.fulfiller);
    co_await paf.promise;
  }

 private:
  FeedModel& model;
};

class MachinedModel final : public rpc::Machined::Server {
 public:
  explicit MachinedModel(FeedModel& model) : model(model) {}
  kj::Promise<void> logFeed(LogFeedContext context) override {
    context.getResults().setFeed(kj::heap<FeedServer>(model));
    return kj::READY_NOW;
  }

 private:
  FeedModel& model;
};

}  // namespace talos::logd
