// The method Events: our events as the kinds that the original's clients know; others have no
// counterpart and are left out. Clients of 1.x also wait for the machine's status, which is a
// resource of ours: a change of it is sent as an event.
#include "apid/grpc/all-methods.h"
#include "apid/grpc/lent-output.h"
#include "apid/grpc/message-shape.h"
#include "apid/grpc/request-fields.h"
#include "apid/grpc/resource-messages.h"
#include "apid/grpc/resource-watch.h"
#include "common/base/resource.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::grpcapi {
namespace {

class EventMessages {
 public:
  // None for an event that no client knows.
  kj::Maybe<kj::Array<kj::byte>> of(rpc::Event::Reader event) const {
    capnp::DynamicStruct::Reader value(event);
    KJ_IF_MAYBE (which, value.which()) {
      for (auto& kind : kinds) {
        if (kind.member != which->getProto().getName()) continue;
        return wrapped(kind.name, kind.shape.encode(value), event.getId());
      }
    }
    return nullptr;
  }
  kj::Array<kj::byte> of(rpc::MachineStatusSpec::Reader machine) const {
    return wrapped("MachineStatusEvent", status.encode(capnp::DynamicStruct::Reader(machine)), "");
  }

 private:
  struct Kind {
    kj::StringPtr member, name;
    Shape shape;
    Kind(kj::StringPtr member, kj::StringPtr name, kj::StringPtr shape)
        : member(member), name(name), shape(shape, capnp::Schema::from<rpc::Event>()) {}
  };
  Kind kinds[5] = {{"sequence", "SequenceEvent",
                    "1:sequence.sequence 2:sequence.action 3{1:sequence.locked 2:sequence.error}"},
                   {"phase", "PhaseEvent", "1:phase.name 2:phase.action~action"},
                   {"task", "TaskEvent", "1:task.name 2:task.action~action"},
                   {"service", "ServiceStateEvent",
                    "1:service.service 2:service.state 3:service.message "
                    "4:service.health!{1:unknown 2:healthy 3:lastMessage 4:lastChange~time}"},
                   {"restart", "RestartEvent", "1:restart"}};
  Shape status{"1:stage~stage 2!{1:ready 2:problems~condition}",
               capnp::Schema::from<rpc::MachineStatusSpec>()};

  // 2 Any {1 type_url, 2 value}, 3 id.
  static kj::Array<kj::byte> wrapped(kj::StringPtr name, Bytes value, kj::StringPtr id) {
    WireWriter any, out;
    any.text(1, kj::str("talos/runtime/machine.", name));
    if (value.size() > 0) any.bytes(2, value);
    out.bytes(2, any.written());
    if (id.size() > 0) out.text(3, id);
    return out.finish();
  }
};

class EventServer final : public rpc::EventSink::Server {
 public:
  EventServer(const EventMessages& messages, kj::Own<LentOutput> to, kj::Promise<void> started)
      : messages(messages), to(kj::mv(to)), started(started.fork()) {}

 protected:
  kj::Promise<void> events(EventsContext context) override {
    auto charge = to->charge(context.getParams().totalSize());
    co_await started.addBranch();
    for (auto event : itemsOf(context.getParams().getEvents())) {
      if (to->ended()) co_return;
      KJ_IF_MAYBE (message, messages.of(event)) co_await to->send(kj::mv(*message));
    }
  }
  kj::Promise<void> missed(MissedContext) override { return kj::READY_NOW; }

 private:
  const EventMessages& messages;  // as long as the call lasts
  kj::Own<LentOutput> to;
  kj::ForkedPromise<void> started;
};

// Sends changes of the machine's status, and its current status if the client asked for past
// events. The client waits for an empty event, after which it misses none: that is sent when the
// node sends the first snapshot, as the watch of events was started before. Then `started` is
// resolved.
class MachineStatus final : public WatchListener {
 public:
  MachineStatus(const EventMessages& messages, bool reporting, Output& output,
                kj::Own<kj::PromiseFulfiller<void>> started)
      : messages(messages), reporting(reporting), output(output), started(kj::mv(started)) {}

  kj::Promise<void> begin() override {
    co_await output.send(nullptr);
    started->fulfill();
  }
  kj::Promise<void> bootstrapped() override {
    reporting = true;
    return kj::READY_NOW;
  }
  kj::Promise<void> changed(Event event, rpc::Resource::Reader resource) override {
    if (!reporting || event == Event::kDestroyed) return kj::READY_NOW;
    return output.send(messages.of(resource.getSpec().getAs<rpc::MachineStatusSpec>()));
  }
  kj::Promise<void> gone(kj::StringPtr) override { return kj::READY_NOW; }
  AnswerCharge charge(capnp::MessageSize kept) override { return output.charge(kept); }

 private:
  const EventMessages& messages;
  bool reporting;
  Output& output;
  kj::Own<kj::PromiseFulfiller<void>> started;
};

class EventsMethod final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    RequestFields request(message);
    auto watching = node.eventsRequest().send().getEvents().watchRequest();
    bool past = setTail(request, watching.initTail());
    auto lent = kj::refcounted<LentOutput>(output);
    KJ_DEFER(lent->end());
    auto started = kj::newPromiseAndFulfiller<void>();
    watching.setSink(kj::heap<EventServer>(messages, kj::addRef(*lent), kj::mv(started.promise)));
    auto events = watching.send().ignoreResult();
    MachineStatus status(messages, past, output, kj::mv(started.fulfiller));
    auto resources = node.resourcesRequest().send().getResources();
    auto machine =
        watch(kj::mv(resources), "runtime", typeName<rpc::MachineStatusSpec>(), "machine", status);
    co_await events.exclusiveJoin(kj::mv(machine));
  }

 private:
  EventMessages messages;

  // Returns true if the client wants past events.
  static bool setTail(const RequestFields& request, rpc::Tail::Builder tail) {
    auto last = static_cast<int32_t>(request.number(1));
    auto after = request.text(2);
    auto seconds = static_cast<int32_t>(request.number(3));
    if ((last != 0) + (after.size() > 0) + (seconds != 0) > 1) {
      fail(ErrorKind::kInvalidArgument, "use one of tail_events, tail_id and tail_seconds");
    }
    if (last != 0) tail.setLast(last);
    if (after.size() > 0) tail.setAfter(after);
    if (seconds > 0) tail.setSeconds(seconds);
    return last != 0 || after.size() > 0 || seconds > 0;
  }
};

}  // namespace

void addEvents(kj::Vector<Entry>& all) {
  all.add(Entry{"/machine.MachineService/Events", Answer::kItems, kj::heap<EventsMethod>()});
}

}  // namespace talos::grpcapi
