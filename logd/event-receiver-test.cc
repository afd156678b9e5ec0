// A destination that publishes events, against the gRPC server of the project: the frames are real.
#include "logd/event-receiver.h"

#include <deque>
#include <string>
#include <vector>

#include "common/grpc-messages/test-messages.h"
#include "common/grpc/test-grpc-server.h"
#include "logd/test-destination.h"

namespace talos::logd {
namespace {

using grpcapi::testing::Message;

constexpr auto kPublish = "/events.EventSinkService/Publish";
constexpr uint64_t kSecond = 1'000'000'000;

struct EventReceiverTest : public DestinationTest {
  ~EventReceiverTest() noexcept override { destination = nullptr; }

  grpc::ModelServer server;
  std::vector<Message> got;
  std::deque<int> answers;  // statuses of the next events; then 0
  std::string response;     // message with each status 0
  bool refuses = false, hangs = false;

  EventReceiverTest() {
    stream = config::LogStream::EVENTS;
    server.methods[kPublish] = [this](auto& call) {
      if (!call.ended) return;
      got.push_back(Message(call.messages.front()));
      if (hangs) return;
      int status = answers.empty() ? 0 : answers.front();
      if (!answers.empty()) answers.pop_front();
      if (status == 0) call.send(response);
      call.finish(status, status == 0 ? "" : "not stored");
    };
  }
  kj::Own<EventReceiver> receiverOf(kj::Timer& timer) {
    return kj::heap<EventReceiver>(timer, kj::str("192.0.2.7:4000"),
                                   [this]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
                                     if (refuses) {
                                       return error(ErrorKind::kUnavailable, "Connection refused");
                                     }
                                     return server.dial();
                                   });
  }
  void startEvents(uint64_t buffer = 1u << 20) {
    start("grpc://192.0.2.7:4000", buffer, receiverOf(timer));
  }
  void task(kj::StringPtr name) {
    feed.published().task(name, rpc::Action::START);
    scope.poll();
  }
  // Returns "TaskEvent name,", or "MachineStatusEvent 4," with the stage, for each message.
  std::string texts() {
    std::string out;
    for (auto& message : got) {
      auto any = message.in(1);
      auto url = any.text(1);
      auto name = url.substr(url.find('.') + 1);
      auto value = any.in(2);
      out += name + " " +
             (name == "MachineStatusEvent" ? std::to_string(value.number(1)) : value.text(1)) + ",";
    }
    return out;
  }
};

// Catches: another method, field or type than Talos' tools read; an event out of its order, or
// twice; an event that they do not know; a connection for each event; events that are sent again
// when logd is restarted.
TEST_F(EventReceiverTest, PublishesEachEventInItsOrder) {
  feed.published().sequence("boot", rpc::Action::START);
  feed.published().publish([](auto event) { event.initNetwork().setLink("eth0"); });
  startEvents();
  task("one");
  feed.published().publish([](auto event) {
    auto service = event.initService();
    service.setService("apid");
    service.setState(rpc::ServiceState::RUNNING);
  });
  task("two");
  EXPECT_EQ("SequenceEvent boot,TaskEvent one,ServiceStateEvent apid,TaskEvent two,", texts());
  EXPECT_EQ("talos/runtime/machine.SequenceEvent", got[0].in(1).text(1));
  EXPECT_EQ(1u, got[0].in(1).in(2).number(2)) << "start";
  for (size_t i = 1; i < got.size(); ++i) EXPECT_LT(got[i - 1].text(2), got[i].text(2));
  EXPECT_EQ(20u, got[0].text(2).size());
  EXPECT_EQ(1u, server.dialled);
  EXPECT_EQ(kPublish, server.exchanges[1].path);
  EXPECT_EQ("application/grpc", server.exchanges[1].headers["content-type"]);
  auto status = destination->status();
  EXPECT_TRUE(status.connected);
  EXPECT_EQ(5u, status.sentLines);
  EXPECT_EQ(0u, status.waitingBytes);
  EXPECT_EQ("", status.lastError);

  startEvents();
  task("three");
  EXPECT_EQ(
      "SequenceEvent boot,TaskEvent one,ServiceStateEvent apid,TaskEvent two,TaskEvent three,",
      texts());
}

// Catches: events that are lost, or overtake each other, while the receiver is away, hangs or loses
// its connection; a call without a deadline; events of a batch that are published again although
// they were answered; an unanswered event that comes again under another id.
TEST_F(EventReceiverTest, RetriesTheEventThatGotNoAnswer) {
  refuses = true;
  for (auto name : {"1", "2", "3"}) feed.published().task(name, rpc::Action::START);
  startEvents();
  EXPECT_FALSE(destination->status().connected);
  EXPECT_EQ("Connection refused", destination->status().lastError);
  EXPECT_GT(destination->status().waitingBytes, 0u);
  refuses = false;
  answers = {0, 14};
  pass(1100 * kj::MILLISECONDS);
  EXPECT_EQ("TaskEvent 1,TaskEvent 2,", texts());
  EXPECT_EQ("not stored", destination->status().lastError);
  EXPECT_EQ(0u, destination->status().sentLines);
  hangs = true;
  pass(3 * kj::SECONDS);
  EXPECT_EQ("TaskEvent 1,TaskEvent 2,TaskEvent 2,", texts());
  task("4");
  pass(kEventDeadline);
  EXPECT_FALSE(destination->status().connected);
  EXPECT_EQ("the receiver has not answered /events.EventSinkService/Publish in time",
            destination->status().lastError);
  hangs = false;
  server.drop();
  pass(60 * kj::SECONDS);
  EXPECT_EQ("TaskEvent 1,TaskEvent 2,TaskEvent 2,TaskEvent 2,TaskEvent 3,TaskEvent 4,", texts());
  EXPECT_EQ(got[1].text(2), got[3].text(2));
  EXPECT_TRUE(destination->status().connected);
  EXPECT_EQ("", destination->status().lastError);
  EXPECT_EQ(4u, destination->status().sentLines);
}

// Catches: an event that is published for ever because the receiver calls it invalid; such an event
// that counts as sent; another failure that loses its event.
TEST_F(EventReceiverTest, DropsWhatTheReceiverCallsInvalid) {
  answers = {0, 3, 13};
  startEvents();
  for (auto name : {"1", "2", "3"}) task(name);
  EXPECT_EQ("TaskEvent 1,TaskEvent 2,TaskEvent 3,", texts());
  EXPECT_EQ(1u, destination->status().refusedLines);
  EXPECT_EQ(1u, destination->status().sentLines);
  pass(2 * kj::SECONDS);
  EXPECT_EQ("TaskEvent 1,TaskEvent 2,TaskEvent 3,TaskEvent 3,", texts());
  EXPECT_EQ(1u, destination->status().refusedLines);
  EXPECT_EQ(2u, destination->status().sentLines);
}

// Catches: an event that the receiver got before a lost answer, published for ever because the
// receiver calls it a duplicate; an event that is lost because another call disturbed it.
TEST_F(EventReceiverTest, PublishesAnAbortedEventAgainAndADuplicateOnce) {
  answers = {10, 6};
  startEvents();
  task("1");
  EXPECT_EQ(0u, destination->status().sentLines);
  pass(2 * kj::SECONDS);
  task("2");
  EXPECT_EQ("TaskEvent 1,TaskEvent 1,TaskEvent 2,", texts());
  EXPECT_EQ(0u, destination->status().refusedLines);
  EXPECT_EQ(2u, destination->status().sentLines);
}

// Catches: a receiver whose answers take the memory of logd, and so of all other receivers.
TEST_F(EventReceiverTest, RefusesALargeAnswer) {
  response = std::string(5000, 'x');
  startEvents();
  task("1");
  EXPECT_EQ(
      "cannot read the answer of the receiver to /events.EventSinkService/Publish: a message has "
      "5000 bytes; at most 4096 are accepted",
      destination->status().lastError);
  EXPECT_EQ(0u, destination->status().sentLines);
}

// Catches: a queue without a bound; events that are dropped and not counted; the newest events
// dropped instead of the oldest.
TEST_F(EventReceiverTest, CountsTheEventsThatABoundedQueueDropped) {
  constexpr unsigned kEvents = 900;  // fewer than the node keeps
  refuses = true;
  startEvents(32u << 10);
  for (unsigned i = 0; i < kEvents; ++i) task(kj::str(i));
  auto dropped = destination->status().droppedLines;
  EXPECT_GT(dropped, kEvents / 4);
  EXPECT_LE(destination->status().waitingBytes, 32u << 10);
  refuses = false;
  pass(60 * kj::SECONDS);
  ASSERT_EQ(kEvents, dropped + got.size());
  EXPECT_EQ(got.size(), destination->status().sentLines);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(std::to_string(dropped + i), got[i].in(1).in(2).text(1));
  }
}

// Catches: a receiver that never gets the machine's status, or the same one twice; a past status
// that it gets after a newer one.
TEST_F(EventReceiverTest, PublishesTheNewestStatusOfTheMachine) {
  auto set = [&](uint64_t updated, kj::StringPtr stage) {
    capnp::MallocMessageBuilder message;
    auto status = message.initRoot<rpc::MachineStatusSpec>();
    status.setStage(stage);
    destination->setMachineStatus({1, updated}, status);
    scope.poll();
  };
  refuses = true;
  startEvents();
  task("1");
  set(1 * kSecond, "booting");
  set(2 * kSecond, "running");
  refuses = false;
  pass(5 * kj::SECONDS);
  EXPECT_EQ("TaskEvent 1,MachineStatusEvent 4,", texts());
  EXPECT_EQ(grpcapi::eventIdAt(2 * kSecond), got[1].text(2).c_str());
  set(2 * kSecond, "running");
  EXPECT_EQ(2u, got.size());
  answers = {14};
  set(3 * kSecond, "rebooting");
  pass(60 * kj::SECONDS);
  EXPECT_EQ("TaskEvent 1,MachineStatusEvent 4,MachineStatusEvent 5,MachineStatusEvent 5,", texts());
  // Catches: a refused status that counts as a refused event.
  answers = {3};
  set(4 * kSecond, "resetting");
  task("2");
  pass(60 * kj::SECONDS);
  EXPECT_EQ(6u, got.size());
  EXPECT_EQ(0u, destination->status().refusedLines);
}

// Catches: a status that waits until all events are published, so that a receiver that was away
// takes an old stage for the present one.
TEST_F(EventReceiverTest, PlacesTheStatusAmongTheEvents) {
  auto line = [](uint64_t seconds, kj::StringPtr name) {
    capnp::MallocMessageBuilder message;
    auto event = message.initRoot<rpc::Event>();
    event.setId(grpcapi::eventIdAt(seconds * kSecond));
    event.initTask().setName(name);
    return kj::str(encodeEvent(event), "\n");
  };
  auto receiver = receiverOf(timer);
  capnp::MallocMessageBuilder message;
  auto status = message.initRoot<rpc::MachineStatusSpec>();
  status.setStage("running");
  EXPECT_TRUE(receiver->setStatus({1, 6 * kSecond}, status));
  EXPECT_FALSE(receiver->setStatus({1, 6 * kSecond}, status));
  Spool::Batch batch{.next = {1, 100},
                     .stream = config::LogStream::EVENTS,
                     .lines = kj::heapArray<char>(
                         kj::str(line(5, "a"), "not an event\n", line(7, "b")).asArray())};
  auto answers = receiver->publish(batch, 0).wait(scope);
  EXPECT_EQ("TaskEvent a,MachineStatusEvent 4,TaskEvent b,", texts());
  EXPECT_EQ(3u, answers.all);
  // Catches: an event that was cut and counts as sent.
  EXPECT_EQ(1u, answers.refused);
  // Catches: a report of lost events that counts as an event.
  Spool::Batch missed{.next = {1, 200},
                      .stream = config::LogStream::EVENTS,
                      .lines = kj::heapArray<char>("5 bytes were overwritten\n"_kj.asArray()),
                      .missed = true};
  EXPECT_EQ(0u, receiver->publish(missed, 0).wait(scope).refused);
}

// Accepts every event on each connection of a port of the loopback address.
struct LoopbackServer final : private grpc::GrpcHandler {
  explicit LoopbackServer(kj::AsyncIoContext& io) : timer(io.provider->getTimer()) {
    auto address = io.provider->getNetwork().parseAddress("127.0.0.1", 0).wait(io.waitScope);
    listening = address->listen();
    serving = serve().eagerlyEvaluate([](kj::Exception&&) {});
  }
  kj::uint port() { return listening->getPort(); }
  std::vector<std::string> paths;
  std::vector<Message> got;

 private:
  kj::Timer& timer;
  kj::Own<kj::ConnectionReceiver> listening;
  kj::Promise<void> serving = nullptr;

  kj::Promise<void> serve() {
    for (;;) {
      auto stream = co_await listening->accept();
      co_await grpc::serveGrpc(timer, kj::mv(stream), *this);
    }
  }
  kj::Promise<grpc::GrpcStatus> call(grpc::GrpcCall& call) override {
    auto message = KJ_REQUIRE_NONNULL(co_await call.receive());
    paths.push_back(call.path().cStr());
    got.push_back(Message(message));
    co_await call.send(nullptr);
    co_return grpc::GrpcStatus();
  }
};

// Catches: an address that is dialled with TLS, or without HTTP/2, or read in another way than the
// config's.
TEST(EventReceiver, ReachesAServerOnTheLoopbackAddress) {
  auto io = kj::setupAsyncIo();
  DiskThread disk;
  ReceiverDependencies deps{*io.lowLevelProvider, io.unixEventPort, io.provider->getTimer(), disk};
  LoopbackServer server(io);
  auto address = ReceiverAddress::parse(kj::str("grpc://127.0.0.1:", server.port()));
  EXPECT_EQ(Transport::kGrpc, address.transport);
  auto receiver = eventReceiver(deps, kj::mv(address));
  capnp::MallocMessageBuilder message;
  auto status = message.initRoot<rpc::MachineStatusSpec>();
  status.setStage("running");
  for (uint64_t second : {1, 2}) {
    receiver->setStatus({second, second * kSecond}, status);
    EXPECT_EQ(1u, receiver->publishStatus().wait(io.waitScope).all);
    EXPECT_EQ(0u, receiver->publishStatus().wait(io.waitScope).all);
  }
  EXPECT_EQ((std::vector<std::string>{kPublish, kPublish}), server.paths);
  ASSERT_EQ(2u, server.got.size());
  EXPECT_EQ("talos/runtime/machine.MachineStatusEvent", server.got[1].in(1).text(1));
}

}  // namespace
}  // namespace talos::logd
