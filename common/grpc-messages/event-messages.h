// Events of a node as the messages of Talos' clients and of its receivers of events. Pure.
//
// Talos has events of the machine's status. Here the status is a resource with the time of the
// newest change, which gives the status an id and so a place among the events.
#pragma once

#include "common/grpc-messages/message-shape.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/machine.capnp.h"

namespace talos::grpcapi {

// Writes an event as a message with a google.protobuf.Any and the event's id.
class EventMessages {
 public:
  // Numbers of the two fields, in which Talos' messages differ.
  struct Fields {
    uint32_t data, id;
  };
  explicit EventMessages(Fields fields) : fields(fields) {}

  // Returns nullptr for an event that Talos does not have.
  kj::Maybe<kj::Array<kj::byte>> of(rpc::Event::Reader event) const;
  kj::Array<kj::byte> of(rpc::MachineStatusSpec::Reader machine, kj::StringPtr id) const;

 private:
  struct Kind {
    kj::StringPtr member, name;
    Shape shape;
    Kind(kj::StringPtr member, kj::StringPtr name, kj::StringPtr shape)
        : member(member), name(name), shape(shape, capnp::Schema::from<rpc::Event>()) {}
  };
  Fields fields;
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

  kj::Array<kj::byte> wrapped(kj::StringPtr name, Bytes value, kj::StringPtr id) const;
};

// Returns an id at this time, in the form of the events' ids: 96 bits (seconds, nanoseconds, a
// serial number) in digits, so that ids sort as text in the order of their times.
kj::String eventIdAt(uint64_t nanoseconds);
// Returns the next id: the serial number, which ends four bits before the text does, plus one.
// Returns an empty text if `id` is not valid.
kj::String eventIdAfter(kj::StringPtr id);

}  // namespace talos::grpcapi
