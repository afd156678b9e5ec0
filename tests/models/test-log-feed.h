// The logs of a machine and machined's feed of them for tests, with the rights of logd, and a
// connection that a test ends.
#pragma once

#include <kj/async-unix.h>

#include "common/base/node-layout.h"
#include "machined/api/node-server.h"
#include "machined/logs/log-feed.h"
#include "machined/process1/test-process1.h"

namespace talos::logd {

class FeedModel {
 public:
  explicit FeedModel(kj::UnixEventPort& port) : logs(process1, port) {}

  unsigned follows = 0;
  uint64_t known = 0;                        // last requested position of the log "a"
  uint64_t delivered = 0;                    // position after the newest lines that logd received
  kj::Own<kj::PromiseFulfiller<void>> end;   // ends the last follow()
  kj::Maybe<rpc::LogFeedSink::Client> sink;  // sink of the last follow()

  void append(kj::StringPtr id, kj::StringPtr lines) { logs.append(id, lines); }
  machined::Events& published() { return events; }
  rpc::Machined::Client machined() {
    rpc::Node::Client none = KJ_EXCEPTION(DISCONNECTED, "this model has the logs alone");
    return machined::serveMachined(
        UnixPeer{1, kLogdUid, kLogdUid}, none, none, KJ_EXCEPTION(DISCONNECTED, "no store"),
        [](auto) {}, [](auto) {}, kj::heap<Feed>(*this));
  }

 private:
  class Sink final : public rpc::LogFeedSink::Server {
   public:
    Sink(FeedModel& model, rpc::LogFeedSink::Client inner) : model(model), inner(kj::mv(inner)) {}
    kj::Promise<void> begin(BeginContext context) override {
      auto request = inner.beginRequest();
      request.setBoot(context.getParams().getBoot());
      return context.tailCall(kj::mv(request));
    }
    kj::Promise<void> lines(LinesContext context) override {
      auto params = context.getParams();
      auto next = params.getNext();
      auto request = inner.linesRequest();
      request.setStream(params.getStream());
      request.setId(params.getId());
      request.setBytes(params.getBytes());
      request.setNext(next);
      co_await request.send();
      model.delivered = next;
    }
    kj::Promise<void> missed(MissedContext context) override {
      auto params = context.getParams();
      auto request = inner.missedRequest();
      request.setStream(params.getStream());
      request.setId(params.getId());
      request.setCount(params.getCount());
      request.setNext(params.getNext());
      return request.send();
    }

   private:
    FeedModel& model;
    rpc::LogFeedSink::Client inner;
  };

  class Feed final : public rpc::LogFeed::Server {
   public:
    explicit Feed(FeedModel& model) : model(model) {}
    kj::Promise<void> follow(FollowContext context) override {
      auto params = context.getParams();
      model.known = 0;
      for (auto known : params.getKnown()) {
        if (kj::StringPtr(known.getId()) == "a") model.known = known.getNext();
      }
      ++model.follows;
      model.sink = params.getSink();
      auto request = model.real.followRequest();
      request.setStreams(params.getStreams());
      request.setBoot(params.getBoot());
      request.setKnown(params.getKnown());
      request.setSink(kj::heap<Sink>(model, params.getSink()));
      auto paf = kj::newPromiseAndFulfiller<void>();
      model.end = kj::mv(paf.fulfiller);
      return request.send().ignoreResult().exclusiveJoin(kj::mv(paf.promise));
    }

   private:
    FeedModel& model;
  };

  machined::FakeMachine machine;
  machined::FakeProcess1 process1{machine};
  machined::Events events{kj::nullClock(), process1};
  machined::Logs logs;
  rpc::LogFeed::Client real = machined::serveLogFeed(
      logs, events, kj::str("boot-1"),
      [](uint64_t, rpc::LogSink::Client) -> kj::Promise<void> { return kj::NEVER_DONE; });
};

}  // namespace talos::logd
