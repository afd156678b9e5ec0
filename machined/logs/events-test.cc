#include "machined/logs/event-ring.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <malloc.h>

#include "common/base/error.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

class TestClock final : public kj::Clock {
 public:
  kj::Date time = kj::UNIX_EPOCH + 1'700'000'000 * kj::SECONDS;
  kj::Date now() const override { return time; }
};

// Counts the events that it gets; a stopped sink never finishes its first call.
class Sink final : public rpc::EventSink::Server {
 public:
  struct Received {
    uint64_t events = 0, missed = 0;
    kj::Vector<kj::String> names, ids;
    bool stopped = false, keep = true, ordered = true;
    kj::String last;
    kj::Own<kj::PromiseFulfiller<void>> go;
  };
  explicit Sink(Received& received) : received(received) {}

  kj::Promise<void> events(EventsContext context) override {
    for (auto event : context.getParams().getEvents()) {
      ++received.events;
      received.ordered = received.ordered && kj::StringPtr(received.last) < event.getId();
      received.last = kj::str(event.getId());
      if (!received.keep) continue;
      received.ids.add(kj::str(event.getId()));
      received.names.add(kj::str(event.isTask() ? event.getTask().getName() : ""_kj));
    }
    if (!received.stopped) return kj::READY_NOW;
    auto paf = kj::newPromiseAndFulfiller<void>();
    received.go = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }
  kj::Promise<void> missed(MissedContext context) override {
    received.missed += context.getParams().getCount();
    return kj::READY_NOW;
  }

 private:
  Received& received;
};

struct EventsTest : public testing::Test {
  ~EventsTest() noexcept override {}

  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  TestClock clock;
  FakeMachine machine;
  FakeProcess1 process1{machine};
  Events events{clock, process1};

  void tasks(int from, int to) {
    for (int i = from; i < to; ++i) events.task(kj::str("t", i), rpc::Action::START);
  }
  kj::Promise<void> watch(Sink::Received& received, kj::Function<void(rpc::Tail::Builder)> set) {
    capnp::MallocMessageBuilder message;
    auto tail = message.initRoot<rpc::Tail>();
    set(tail);
    auto promise = events.watch(tail.asReader(), kj::heap<Sink>(received)).eagerlyEvaluate(nullptr);
    scope.poll();
    return promise;
  }
};

// An ID that is not ordered as its event breaks "after this id" for good.
TEST(EventIdTest, OrderAsTextIsOrderOfEventsAlsoWhenTheClockGoesBack) {
  EventIdMaker maker;
  auto time = kj::UNIX_EPOCH + 1'600'000'000 * kj::SECONDS;
  kj::String last = kj::str("");
  for (auto step : {0, 1, 1'000'000'000, -2'000'000'000, 0, 3, 1'999'999'999}) {
    time += step * kj::NANOSECONDS;
    auto id = maker.next(time);
    auto text = id.toString();
    EXPECT_EQ(text.size(), 20u);
    EXPECT_LT(last, text);
    auto back = KJ_ASSERT_NONNULL(EventId::parse(text));
    EXPECT_EQ(back.seconds, id.seconds);
    EXPECT_EQ(back.nanoseconds, id.nanoseconds);
    EXPECT_EQ(back.serial, id.serial);
    last = kj::mv(text);
  }
}

TEST(EventIdTest, RefusesWhatIsNoId) {
  for (auto text : {""_kj, "short"_kj, "0000000000000000000w"_kj, "000000000000000000000"_kj,
                    "ABCDEFGHIJ0123456789"_kj}) {
    EXPECT_TRUE(EventId::parse(text) == nullptr) << text.cStr();
  }
}

// Catches: a reader of past events that waits for new ones.
TEST_F(EventsTest, OnceEndsWithTheEventsOfNow) {
  tasks(0, 100);
  capnp::MallocMessageBuilder message;
  auto tail = message.initRoot<rpc::Tail>();
  tail.setLast(-1);
  Sink::Received received;
  auto promise = events.watch(tail.asReader(), kj::heap<Sink>(received), true);
  tasks(100, 101);
  ASSERT_TRUE(promise.poll(scope));
  promise.wait(scope);
  EXPECT_GE(received.names.size(), 100u);
}

TEST_F(EventsTest, TailsChooseWhereAFollowerBegins) {
  tasks(0, 5);
  clock.time += 100 * kj::SECONDS;
  tasks(5, 8);
  Sink::Received all, none, two, recent, many;
  auto p1 = watch(all, [](auto t) { t.setLast(-1); });
  auto p2 = watch(none, [](auto t) { t.setNone(); });
  auto p3 = watch(two, [](auto t) { t.setLast(2); });
  auto p4 = watch(recent, [](auto t) { t.setSeconds(50); });
  auto p5 = watch(many, [](auto t) { t.setLast(5000); });
  EXPECT_EQ(all.events, 8u);
  EXPECT_EQ(none.events, 0u);
  EXPECT_EQ(two.names[0], "t6");
  EXPECT_EQ(recent.names[0], "t5");
  EXPECT_EQ(many.events, 8u);
  Sink::Received after;
  auto p6 = watch(after, [&](auto t) { t.setAfter(all.ids[5]); });
  ASSERT_EQ(after.events, 2u);
  EXPECT_EQ(after.names[0], "t6");
  tasks(8, 9);
  scope.poll();
  EXPECT_EQ(none.events, 1u);
  EXPECT_EQ(after.events, 3u);
}

TEST_F(EventsTest, AnIdThatIsNoneIsRefusedByName) {
  Sink::Received received;
  auto e = kj::runCatchingExceptions(
      [&] { watch(received, [](auto t) { t.setAfter("yesterday"); }).wait(scope); });
  ASSERT_TRUE(e != nullptr);
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kInvalidArgument);
}

// A client that reconnects with its last ID must learn of a gap.
TEST_F(EventsTest, AfterAnIdThatFellOutOfTheRingReportsHowManyAreGone) {
  tasks(0, 10);
  Sink::Received first, later;
  auto p1 = watch(first, [](auto t) { t.setLast(-1); });
  p1 = nullptr;
  tasks(10, 2000);
  auto p2 = watch(later, [&](auto t) { t.setAfter(first.ids[3]); });
  EXPECT_EQ(later.missed, 996u);  // 4 … 999
  EXPECT_EQ(later.events, 1000u);
  EXPECT_EQ(later.names[0], "t1000");
}

// The figure of the design: memory depends neither on the number of followers nor on their speed.
TEST_F(EventsTest, HundredFollowersOneStoppedMemoryBounded) {
  constexpr int kFollowers = 100, kEvents = 100'000, kBurst = 500;
  kj::Vector<kj::Own<Sink::Received>> received;
  kj::Vector<kj::Promise<void>> running;
  for (int i = 0; i < kFollowers; ++i) {
    auto& s = *received.add(kj::heap<Sink::Received>());
    s.keep = false;
    s.stopped = i == 0;
    running.add(watch(s, [](auto t) { t.setNone(); }));
  }
  size_t before = 0;
  for (int i = 0; i < kEvents; i += kBurst) {
    tasks(i, i + kBurst);
    scope.poll();
    if (i == kEvents / 10) before = mallinfo2().uordblks;
  }
  auto after = mallinfo2().uordblks;
  EXPECT_LT(after, before + (1u << 20));
  for (int i = 1; i < kFollowers; ++i) {
    EXPECT_EQ(received[i]->events, kEvents);
    EXPECT_TRUE(received[i]->ordered);
    EXPECT_EQ(received[i]->missed, 0u);
  }
  // The stopped follower continues: its received and its missed events together are all events.
  received[0]->stopped = false;
  received[0]->go->fulfill();
  scope.poll();
  EXPECT_EQ(received[0]->events + received[0]->missed, uint64_t{kEvents});
  EXPECT_GT(received[0]->missed, kEvents - 1100u);
  EXPECT_TRUE(received[0]->ordered);
}

TEST_F(EventsTest, AListenerHearsThePastAndMayPublishItself) {
  tasks(0, 2);
  kj::Vector<kj::String> names;
  events.onEvent([&](rpc::Event::Reader event) {
    if (event.isTask()) {
      names.add(kj::str(event.getTask().getName()));
      if (names.size() == 3) events.phase("p", rpc::Action::START);
    } else {
      names.add(kj::str("phase"));
    }
  });
  EXPECT_EQ(names.size(), 2u);
  tasks(2, 3);
  ASSERT_EQ(names.size(), 4u);
  EXPECT_EQ(names[2], "t2");
  EXPECT_EQ(names[3], "phase");
}

// Catches: events that are lost with the brain, and IDs that start again: a follower would miss
// events or get them twice.
TEST_F(EventsTest, ANewBrainHasThoseOfItsPredecessor) {
  tasks(0, 1200);
  scope.poll();
  Sink::Received before;
  auto first = watch(before, [](auto tail) { tail.setLast(1); });
  FakeProcess1 next(machine);
  Events again(clock, next);
  again.task("after", rpc::Action::START);
  kj::Vector<kj::String> names, ids;
  again.onEvent([&](rpc::Event::Reader event) {
    names.add(kj::str(event.getTask().getName()));
    ids.add(kj::str(event.getId()));
  });
  ASSERT_EQ(kEventRing, names.size());
  EXPECT_EQ("t201", names[0]);
  EXPECT_EQ("t1199", names[kEventRing - 2]);
  EXPECT_EQ("after", names[kEventRing - 1]);
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_LT(ids[i - 1], ids[i]);
  Sink::Received received;
  capnp::MallocMessageBuilder message;
  auto tail = message.initRoot<rpc::Tail>();
  tail.setAfter(ids[kEventRing - 3]);
  auto promise = again.watch(tail.asReader(), kj::heap<Sink>(received)).eagerlyEvaluate(nullptr);
  scope.poll();
  EXPECT_EQ(2u, received.events);
  EXPECT_EQ(0u, received.missed);
}

// Catches: a line of a foreign disk that is read as an event, or ends the brain.
TEST(EventLine, AnyBytes) {
  for (auto line :
       {""_kj, "AAAA"_kj, "!!!!"_kj, "AAAAAAAAAAA="_kj, "//////////////////////8="_kj}) {
    decodeEvent(line, [](rpc::Event::Reader event) { event.totalSize(); });
  }
  capnp::MallocMessageBuilder message;
  auto event = message.initRoot<rpc::Event>();
  event.setId("x");
  unsigned found = 0;
  EXPECT_TRUE(decodeEvent(encodeEvent(event),
                          [&](rpc::Event::Reader read) { found += read.getId() == "x" ? 1 : 0; }));
  EXPECT_EQ(1u, found);
}

// Catches: a watcher that a connection still holds while the brain shuts down and that touches
// freed memory.
TEST(EventsLifeTest, FollowerOutlivesTheRing) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  TestClock clock;
  FakeMachine machine;
  FakeProcess1 process1(machine);
  auto events = kj::heap<Events>(clock, process1);
  Sink::Received received;
  capnp::MallocMessageBuilder message;
  auto promise = events->watch(message.initRoot<rpc::Tail>().asReader(), kj::heap<Sink>(received));
  scope.poll();
  events = nullptr;
  EXPECT_FALSE(promise.poll(scope));
  promise = nullptr;
}

}  // namespace
}  // namespace talos::machined
