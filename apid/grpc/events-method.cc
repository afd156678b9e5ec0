// The method Events: our events as the kinds that Talos' clients know; other events have no
// counterpart and are left out. Clients of 1.x also wait for the machine's status, which is a
// resource of ours: its newest change is a past event, and each later change a new event.
#include <algorithm>

#include "apid/grpc/answer-output.h"
#include "apid/grpc/method-table.h"
#include "apid/grpc/resource-messages.h"
#include "apid/grpc/resource-watch.h"
#include "common/base/resource.h"
#include "common/grpc-messages/event-messages.h"
#include "common/grpc-messages/request-fields.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::grpcapi {
namespace {

// The events for one client, in the order of their ids.
//
// The node has no events of the machine's status, which is a resource of ours with the time of its
// newest change. This time gives it an id, and so a place among the events: the newest status is
// part of the past, and later ones are sent when they are published.
class EventStream final : public kj::Refcounted {
 public:
  EventStream(const EventMessages& messages, kj::Own<LentOutput> to)
      : messages(messages), to(kj::mv(to)) {}

  // Adds a past event, which is kept until sendPast().
  void addPast(rpc::Event::Reader event) {
    if (++seen > kMostPast) {
      fail(ErrorKind::kResourceExhausted,
           kj::str("the node has more than ", kMostPast, " events of the past; ask for fewer"));
    }
    newest = kj::str(event.getId());
    KJ_IF_MAYBE (message, messages.of(event)) {
      auto& kept = past.add(Kept{kj::str(newest), kj::mv(*message)});
      bytes += kept.message.size() + kept.id.size();
    }
  }
  void chargePast() { charge = to->charge({bytes / sizeof(capnp::word), 0}); }

  // Adds the machine's status to the past if its id is after `after`.
  void addStatusToPast(kj::StringPtr after) {
    KJ_IF_MAYBE (s, status) {
      if (!(after < s->id)) return;
      auto place = std::upper_bound(past.begin(), past.end(), s->id,
                                    [](auto& id, auto& event) { return id < event.id; });
      auto index = place - past.begin();
      past.add(kj::mv(*s));
      std::rotate(past.begin() + index, past.end() - 1, past.end());
    }
  }
  // Returns the id of the oldest past event that clients know; empty if they know none of them.
  kj::StringPtr oldestPast() const { return past.empty() ? kj::StringPtr() : past[0].id.asPtr(); }

  kj::Promise<void> sendPast(size_t last) {
    for (auto i = past.size() - kj::min(past.size(), last); i < past.size(); ++i) {
      sent = kj::mv(past[i].id);
      co_await to->send(kj::mv(past[i].message));
    }
    past.clear();
    charge = AnswerCharge(nullptr);
  }

  kj::Promise<void> send(rpc::Event::Reader event) {
    KJ_IF_MAYBE (message, messages.of(event)) {
      sent = kj::str(event.getId());
      return to->send(kj::mv(*message));
    }
    return kj::READY_NOW;
  }
  void setStatus(rpc::Resource::Reader resource) {
    auto id = eventIdAt(resource.getMetadata().getUpdated());
    auto message = messages.of(resource.getSpec().getAs<rpc::MachineStatusSpec>(), id);
    status = Kept{kj::mv(id), kj::mv(message)};
  }
  // Sends a status that has just changed, with an id after all sent ids.
  kj::Promise<void> sendStatus(rpc::Resource::Reader resource) {
    auto id = eventIdAt(resource.getMetadata().getUpdated());
    if (!(sent < id)) id = eventIdAfter(sent);
    sent = kj::str(id);
    return to->send(messages.of(resource.getSpec().getAs<rpc::MachineStatusSpec>(), id));
  }

  LentOutput& output() { return *to; }
  // Returns the id of the newest past event that the node has sent, of any kind; empty if it sent
  // none.
  kj::StringPtr newestPast() const { return newest; }

 private:
  static constexpr size_t kMostPast = 4096;  // past events of the node, which keeps 1000
  struct Kept {
    kj::String id;
    kj::Array<kj::byte> message;
  };
  const EventMessages& messages;  // valid as long as the call
  kj::Own<LentOutput> to;
  kj::Vector<Kept> past;
  kj::Maybe<Kept> status;
  kj::String newest, sent;
  size_t seen = 0, bytes = 0;
  AnswerCharge charge{nullptr};
};

class PastEvents final : public rpc::EventSink::Server {
 public:
  explicit PastEvents(kj::Own<EventStream> stream) : stream(kj::mv(stream)) {}

 protected:
  kj::Promise<void> events(EventsContext context) override {
    for (auto event : itemsOf(context.getParams().getEvents())) stream->addPast(event);
    stream->chargePast();
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext) override { return kj::READY_NOW; }

 private:
  kj::Own<EventStream> stream;
};

// Receives the present events, which wait until the past is sent.
class EventServer final : public rpc::EventSink::Server {
 public:
  EventServer(kj::Own<EventStream> stream, kj::Promise<void> pastSent)
      : stream(kj::mv(stream)), pastSent(pastSent.fork()) {}

 protected:
  kj::Promise<void> events(EventsContext context) override {
    auto charge = stream->output().charge(context.getParams().totalSize());
    co_await pastSent.addBranch();
    for (auto event : itemsOf(context.getParams().getEvents())) {
      if (stream->output().ended()) co_return;
      co_await stream->send(event);
    }
  }
  kj::Promise<void> missed(MissedContext) override { return kj::READY_NOW; }

 private:
  kj::Own<EventStream> stream;
  kj::ForkedPromise<void> pastSent;
};

// The client waits for an empty event, after which it misses none: the event is sent when the node
// sends the first snapshot.
class MachineStatus final : public WatchListener {
 public:
  MachineStatus(EventStream& stream, kj::Own<kj::PromiseFulfiller<void>> known,
                kj::Promise<void> pastSent)
      : stream(stream), known(kj::mv(known)), pastSent(pastSent.fork()) {}

  kj::Promise<void> begin() override { return stream.output().send(nullptr); }
  kj::Promise<void> bootstrapped() override {
    started = true;
    known->fulfill();
    return kj::READY_NOW;
  }
  kj::Promise<void> changed(Event event, rpc::Resource::Reader resource) override {
    if (event == Event::kDestroyed) co_return;
    if (!started) {
      stream.setStatus(resource);
      co_return;
    }
    co_await pastSent.addBranch();
    co_await stream.sendStatus(resource);
  }
  kj::Promise<void> gone(kj::StringPtr) override { return kj::READY_NOW; }
  AnswerCharge charge(capnp::MessageSize kept) override { return stream.output().charge(kept); }

 private:
  EventStream& stream;
  kj::Own<kj::PromiseFulfiller<void>> known;
  kj::ForkedPromise<void> pastSent;
  bool started = false;
};

// The past that a client wants: of several choices the first is used.
struct Past {
  int32_t last;      // number of events; negative: all
  kj::String after;  // Events after this id.
  int32_t seconds;

  explicit Past(const RequestFields& request)
      : last(static_cast<int32_t>(request.number(1))),
        after(request.text(2)),
        seconds(static_cast<int32_t>(request.number(3))) {
    if (last != 0) after = kj::String();
    if (last != 0 || after.size() > 0) seconds = 0;
  }
  bool wanted() const { return last != 0 || after.size() > 0 || seconds > 0; }
  size_t most() const { return last > 0 ? last : SIZE_MAX; }
  // Requests all past events for a number, because the node also counts kinds that no client knows.
  void set(rpc::Tail::Builder tail) const {
    if (last != 0) tail.setLast(-1);
    if (after.size() > 0) tail.setAfter(after);
    if (seconds > 0) tail.setSeconds(seconds);
  }
};

class EventsMethod final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    RequestFields request(message);
    auto lent = kj::refcounted<LentOutput>(output);
    KJ_DEFER(lent->end());
    auto stream = kj::refcounted<EventStream>(messages, kj::addRef(*lent));
    auto known = kj::newPromiseAndFulfiller<void>(), sent = kj::newPromiseAndFulfiller<void>();
    auto pastSent = sent.promise.fork();
    MachineStatus status(*stream, kj::mv(known.fulfiller), pastSent.addBranch());
    // The node watches the events before its answer says so.
    Past past(request);
    auto events = node.eventsRequest().send().getEvents();
    auto present = kj::Promise<void>(kj::NEVER_DONE);
    if (!past.wanted()) present = watchPresent(events, *stream, pastSent.addBranch(), past);
    auto machine = watch(node.resourcesRequest().send().getResources(), "runtime",
                         typeName<rpc::MachineStatusSpec>(), "machine", status);
    // Our events have no actor: a client that wants an actor's events gets none.
    if (request.text(4).size() > 0) co_return co_await machine;
    auto begin = [&]() -> kj::Promise<void> {
      co_await known.promise;
      if (past.wanted()) {
        auto asked = events.watchRequest();
        past.set(asked.initTail());
        asked.setOnce(true);
        asked.setSink(kj::heap<PastEvents>(kj::addRef(*stream)));
        co_await asked.send().ignoreResult();
        // The node's clock decides where the last seconds begin: at their first event.
        auto from = past.seconds > 0 ? stream->oldestPast() : past.after.asPtr();
        if (past.seconds == 0 || from.size() > 0) stream->addStatusToPast(from);
        co_await stream->sendPast(past.most());
        present = watchPresent(events, *stream, pastSent.addBranch(), past);
      }
      sent.fulfiller->fulfill();
      co_await present;
    };
    co_await begin().exclusiveJoin(kj::mv(machine));
  }

 private:
  EventMessages messages{{.data = 2, .id = 3}};

  // Watches the events after the sent past.
  static kj::Promise<void> watchPresent(rpc::Events::Client& events, EventStream& stream,
                                        kj::Promise<void> pastSent, const Past& past) {
    auto watching = events.watchRequest();
    auto tail = watching.initTail();
    if (stream.newestPast().size() > 0) {
      tail.setAfter(stream.newestPast());
    } else {
      past.set(tail);
    }
    watching.setSink(kj::heap<EventServer>(kj::addRef(stream), kj::mv(pastSent)));
    return watching.send().ignoreResult();
  }
};

}  // namespace

void addEvents(kj::Vector<Entry>& all) {
  all.add(Entry{"/machine.MachineService/Events", Answer::kItems, kj::heap<EventsMethod>()});
}

}  // namespace talos::grpcapi
