// A destination whose time, disk and receiver are the test's.
#pragma once

#include <gtest/gtest.h>
#include <kj/async-unix.h>

#include <deque>
#include <string>

#include "common/base/error.h"
#include "common/testing/test-tree.h"
#include "common/testing/virtual-time.h"
#include "logd/destination.h"
#include "tests/models/test-log-feed.h"

namespace talos::logd {

struct InlineDisk final : DiskQueue {
  unsigned failing = 0;  // this many pieces of work fail
  bool keeps = false;    // keep added work until work()
  std::deque<kj::Function<void()>> kept;
  void add(kj::Function<void()> work) override {
    if (failing > 0) {
      --failing;
      fail(ErrorKind::kUnavailable, "the disk is gone");
    }
    if (keeps) return kept.push_back(kj::mv(work));
    work();
  }
  void work() {
    for (keeps = false; !kept.empty(); kept.pop_front()) kept.front()();
  }
};

// A receiver whose kernel acknowledges as many bytes as the test says.
struct ReceiverModel {
  std::string got;            // received on the current connection
  uint64_t acknowledged = 0;  // bytes of `got`
  bool acknowledgesAll = true, refuses = false, over = false;
  unsigned connections = 0;
  kj::Own<kj::PromiseFulfiller<void>> breaks;

  void breakConnection() {
    over = true;
    breaks->reject(error(ErrorKind::kUnavailable, "the receiver closed the connection"));
  }
};

class ModelConnection final : public ReceiverConnection {
 public:
  explicit ModelConnection(ReceiverModel& model) : model(model) {}
  kj::Promise<void> write(kj::ArrayPtr<const char> bytes) override {
    model.got.append(bytes.begin(), bytes.size());
    return kj::READY_NOW;
  }
  uint64_t written() const override { return model.got.size(); }
  kj::Maybe<uint64_t> delivered() override {
    if (model.over) return nullptr;
    return model.acknowledgesAll ? model.got.size() : model.acknowledged;
  }
  kj::Promise<void> ended() override {
    auto paf = kj::newPromiseAndFulfiller<void>();
    model.breaks = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }

 private:
  ReceiverModel& model;
};

struct DestinationTest : public testing::Test {
  ~DestinationTest() noexcept override {}

  kj::UnixEventPort port;
  kj::EventLoop loop{port};
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  machined::TestTree tree;
  InlineDisk disk;
  FeedModel feed{port};
  ReceiverModel receiver;
  kj::String hostname = kj::str("node-1");
  kj::Function<double()> random = [] { return 0.5; };
  kj::Own<Destination> destination;
  config::LogStream stream = config::LogStream::SERVICES;

  void start(uint64_t buffer = 1u << 20) {
    start("tcp://logs.example.org:514", buffer,
          Dial([this]() -> kj::Promise<kj::Own<ReceiverConnection>> {
            if (receiver.refuses) return error(ErrorKind::kUnavailable, "Connection refused");
            receiver.got.clear();
            receiver.over = false;
            ++receiver.connections;
            return kj::Own<ReceiverConnection>(kj::heap<ModelConnection>(receiver));
          }));
  }
  void start(kj::StringPtr endpoint, uint64_t buffer, Connection connection) {
    destination = nullptr;
    DestinationSettings settings;
    settings.endpoint = kj::str(endpoint);
    settings.streams = kj::arr(kj::cp(stream));
    settings.bufferBytes = buffer;
    destination = kj::heap<Destination>(DestinationDependencies{.timer = timer,
                                                                .clock = kj::nullClock(),
                                                                .random = random,
                                                                .disk = disk,
                                                                .machined = feed.machined(),
                                                                .hostname = hostname},
                                        kj::mv(settings), tree.at("spool"), kj::mv(connection));
    scope.poll();
  }
  void pass(kj::Duration time) { advance(timer, scope, time); }
  void log(kj::StringPtr lines) {
    feed.append("a", lines);
    scope.poll();
  }
  // Returns the texts that the current connection received, joined.
  std::string texts() {
    std::string out;
    for (size_t at = 0; (at = receiver.got.find("{\"msg\":\"", at)) != std::string::npos;) {
      at += 8;
      out += receiver.got.substr(at, receiver.got.find('"', at) - at) + ",";
    }
    return out;
  }
};

}  // namespace talos::logd
