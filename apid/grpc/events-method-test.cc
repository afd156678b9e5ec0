// The method Events, against models of the parts of a node that it calls.
#include "apid/grpc/test-machine-model.h"

namespace talos::grpcapi {
namespace {

using namespace testing;

constexpr uint64_t kSecond = 1'000'000'000;

// Returns the id of an event at the beginning of this second: 32 bits of 100, in digits of five
// bits each.
std::string idOfSecond(unsigned second) {
  constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuv";
  std::string id;
  for (int i = 0; i < 20; ++i) {
    auto shift = 95 - 5 * i - 68;
    uint64_t value = second;
    id += kDigits[shift >= 0 ? (value >> shift) & 31 : shift > -5 ? (value << -shift) & 31 : 0];
  }
  return id;
}

// Returns "TaskEvent id" of each event.
std::vector<std::string> kindsOf(const TestCall& call) {
  std::vector<std::string> all;
  for (size_t i = 0; i < call.sent.size(); ++i) {
    auto url = call.message(i).in(2).text(1);
    all.push_back(url.substr(url.find('.') + 1) + " " + call.message(i).text(3));
  }
  return all;
}

// Catches: a missing first event that clients wait for, kinds that no client knows, actions with
// our numbers, an unrequested status: a client would take it for the end of a reboot.
TEST_F(MachineMethodsTest, Events) {
  TestCall call("/machine.MachineService/Events");
  auto promise = handler->call(call);
  EXPECT_FALSE(promise.poll(scope));
  ASSERT_EQ(1u, call.sent.size());
  EXPECT_TRUE(call.sent[0].empty());
  auto request = KJ_ASSERT_NONNULL(bed.events).eventsRequest();
  auto events = request.initEvents(4);
  events[0].setId("a");
  auto sequence = events[0].initSequence();
  sequence.setSequence("boot");
  sequence.setAction(rpc::Action::STOP);
  sequence.setError("it failed");
  events[1].setId("b");
  events[1].initNetwork().setLink("eth0");
  events[2].setId("c");
  auto task = events[2].initTask();
  task.setName("stopAllServices");
  task.setAction(rpc::Action::STOP);
  events[3].setId("d");
  auto service = events[3].initService();
  service.setService("apid");
  service.setState(rpc::ServiceState::RUNNING);
  request.send().wait(scope);
  EXPECT_EQ(
      (std::vector<std::string>{" ", "SequenceEvent a", "TaskEvent c", "ServiceStateEvent d"}),
      kindsOf(call));
  auto any = call.message(1).in(2);
  EXPECT_EQ("talos/runtime/machine.SequenceEvent", any.text(1));
  EXPECT_EQ(2u, any.in(2).number(2));
  EXPECT_EQ("it failed", any.in(2).in(3).text(2));
  EXPECT_EQ(1u, call.message(2).in(2).in(2).number(2)) << "stop";
  EXPECT_EQ(3u, call.message(3).in(2).in(2).number(2));
  EXPECT_TRUE(call.message(3).in(2).in(2).has(4)) << "health";
  auto change = KJ_ASSERT_NONNULL(bed.statuses).changesRequest();
  auto one = change.initChanges(1)[0];
  one.setEvent(rpc::Change::Event::UPDATED);
  FakeResources::fill(one.initResource(), "rebooting", false, kSecond);
  change.send().wait(scope);
  ASSERT_EQ(5u, call.sent.size());
  EXPECT_EQ("MachineStatusEvent t", kindsOf(call)[4]) << "behind the event d";
  EXPECT_EQ(5u, call.message(4).in(2).in(2).number(1));
  EXPECT_TRUE(call.message(4).in(2).in(2).has(2)) << "a client follows it blindly";
}

// Catches: an answer that says "watching" too early, so that the client misses an event; an event
// before this answer; an unreachable node that is said to be watched.
TEST_F(MachineMethodsTest, EventsBeginWhenTheyAreWatched) {
  auto snapshot = kj::newPromiseAndFulfiller<void>();
  bed.snapshotGate = snapshot.promise.fork();
  TestCall call("/machine.MachineService/Events");
  auto promise = handler->call(call);
  EXPECT_FALSE(promise.poll(scope));
  auto request = KJ_ASSERT_NONNULL(bed.events).eventsRequest();
  auto event = request.initEvents(1)[0];
  event.setId("a");
  event.initTask();
  auto early = request.send();
  EXPECT_FALSE(promise.poll(scope));
  EXPECT_TRUE(call.sent.empty());
  snapshot.fulfiller->fulfill();
  early.wait(scope);
  EXPECT_EQ((std::vector<std::string>{" ", "TaskEvent a"}), kindsOf(call));
  TestCall away("/machine.MachineService/Events");
  away.toNode("10.0.0.9");
  EXPECT_EQ("14 cannot connect to 10.0.0.9:50000", run(away));
  EXPECT_TRUE(away.sent.empty());
}

// Sets the past of the node: an event that clients know at each of these seconds, followed by one
// that they do not know.
void setPast(Testbed& bed, std::initializer_list<unsigned> seconds) {
  bed.past = [times = std::vector<unsigned>(seconds)](Testbed::EventsOfSink& request) {
    auto events = request.initEvents(times.size() + 1);
    for (auto i : kj::indices(times)) {
      events[i].setId(idOfSecond(times[i]));
      events[i].initTask();
    }
    events[times.size()].setId(idOfSecond(100));
    events[times.size()].initNetwork();
  };
}

// Catches: past events that were requested and are not sent, in another order or number; a status
// of the machine that has no id and no place among them; events between past and present that are
// lost or sent twice.
TEST_F(MachineMethodsTest, EventsOfThePast) {
  setPast(bed, {1, 2, 4, 5});
  bed.updated = 3 * kSecond;
  auto ask = [&](kj::Function<void(WireWriter&)> tail) {
    bed.tails.clear();
    TestCall call("/machine.MachineService/Events", request(kj::mv(tail)));
    auto promise = handler->call(call);
    EXPECT_FALSE(promise.poll(scope));
    std::string all;
    for (auto& kind : kindsOf(call)) {
      if (kind == " ") continue;
      all += kind.substr(0, kind.find(' ')) == "TaskEvent" ? "task " : "status ";
      for (unsigned i = 1; i < 10; ++i) {
        if (kind.ends_with(idOfSecond(i))) all += std::to_string(i) + " ";
      }
    }
    return all;
  };
  auto last = [](int count) {
    return [count](WireWriter& out) { out.varint(1, signExtended(count)); };
  };
  EXPECT_EQ("task 1 task 2 status 3 task 4 task 5 ", ask(last(-1)));
  EXPECT_EQ((std::vector<std::string>{"last -1, once", "after " + idOfSecond(100)}), bed.tails)
      << "the present begins behind all that the node has sent";
  EXPECT_EQ("status 3 task 4 task 5 ", ask(last(3)));
  EXPECT_EQ("task 5 ", ask(last(1)));
  EXPECT_EQ("task 1 task 2 status 3 task 4 task 5 ", ask(last(50)));
  EXPECT_EQ("task 1 task 2 task 4 task 5 ",
            ask([](WireWriter& out) { out.text(2, idOfSecond(3).c_str()); }))
      << "the model sends all of its own";
  EXPECT_EQ("after " + idOfSecond(3) + ", once", bed.tails[0]);
  EXPECT_EQ("task 1 task 2 status 3 task 4 task 5 ",
            ask([](WireWriter& out) { out.varint(3, 60); }));
  EXPECT_EQ("seconds 60, once", bed.tails[0]);
  EXPECT_EQ("task 5 ", ask([](WireWriter& out) {
              out.varint(1, 1);
              out.text(2, "a");
              out.varint(3, 60);
            }))
      << "the number counts";
  bed.past = nullptr;
  EXPECT_EQ("status 3 ", ask(last(7)));
  EXPECT_EQ("last -1", bed.tails[1]) << "a node without events";
  EXPECT_EQ("", ask([](WireWriter& out) { out.varint(3, 60); })) << "an old status";
  EXPECT_EQ("", ask([](WireWriter&) {})) << "no past";
  EXPECT_EQ((std::vector<std::string>{"none"}), bed.tails);
}

// Catches: a status whose id is not after the newest event's, from which a client continues next
// time; and an actor, which our events do not have.
TEST_F(MachineMethodsTest, IdsOfEventsRise) {
  setPast(bed, {1, 5});
  TestCall call("/machine.MachineService/Events",
                request([](WireWriter& out) { out.varint(1, 1); }));
  auto promise = handler->call(call);
  EXPECT_FALSE(promise.poll(scope));
  for (auto second : {5, 6, 6}) {
    auto change = KJ_ASSERT_NONNULL(bed.statuses).changesRequest();
    auto one = change.initChanges(1)[0];
    one.setEvent(rpc::Change::Event::UPDATED);
    FakeResources::fill(one.initResource(), "running", true, second * kSecond);
    change.send().wait(scope);
  }
  ASSERT_EQ(5u, call.sent.size());
  std::vector<std::string> ids;
  for (size_t i = 1; i < call.sent.size(); ++i) ids.push_back(call.message(i).text(3));
  EXPECT_EQ(idOfSecond(5), ids[0]);
  EXPECT_EQ(idOfSecond(6), ids[2]);
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_LT(ids[i - 1], ids[i]);
  for (auto& id : ids) EXPECT_EQ(20u, id.size());
  TestCall actor("/machine.MachineService/Events", request([](WireWriter& out) {
                   out.varint(1, signExtended(-1));
                   out.text(4, "somebody");
                 }));
  auto nothing = handler->call(actor);
  EXPECT_FALSE(nothing.poll(scope));
  ASSERT_EQ(1u, actor.sent.size());
  EXPECT_TRUE(actor.sent[0].empty());
}

}  // namespace
}  // namespace talos::grpcapi
