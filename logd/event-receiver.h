// A receiver of events as Talos' tools have it: the gRPC service events.EventSinkService, over
// HTTP/2 without TLS. Its connection is made with the first event, and again after it was lost.
//
// Events are published one at a time, in the order of the log; those that Talos does not have are
// left out. An event that got no answer is published again, with the same id: so the receiver may
// get it twice. After a crash of logd the batch at the spool's cursor is published again.
//
// The machine's status is no event of a node, and Talos' receivers expect its changes: the newest
// status is published when its turn among the events comes, by its time. A status that waits is
// replaced by a newer one, so a receiver that is away costs the memory of one status and of a
// batch.
#pragma once

#include "common/grpc-messages/event-messages.h"
#include "common/grpc/grpc-client.h"
#include "logd/receiver.h"
#include "logd/spool.h"

namespace talos::logd {

// Time for the answer to one event, including that for the connection.
constexpr auto kEventDeadline = 10 * kj::SECONDS;

class EventReceiver {
 public:
  // `address` is host:port; `dial` connects to it.
  EventReceiver(kj::Timer& timer, kj::String address, grpc::Client::Dial dial);

  // Number of the receiver's answers, that of the refused events, and the error of the last one.
  struct Answers {
    uint64_t all = 0, refused = 0;
    kj::String error;
  };
  // Publishes the events of a batch, which outlives the promise. Rejects if an event got no answer,
  // or one that may change; the next call with this batch continues with this event. An event that
  // the receiver calls invalid is refused: it is not published again. A duplicate counts as
  // published, because the receiver got the event before its answer was lost. A receiver has no
  // message for lost events: those of the batch, and the `dropped` ones before it, are a line of
  // the log.
  kj::Promise<Answers> publish(const Spool::Batch& batch, uint64_t dropped);

  // Version and time of a status of the machine. The clock may be set, so the time alone does not
  // tell two of them apart.
  struct Change {
    uint64_t version = 0, updated = 0;
    bool operator==(const Change&) const = default;
  };
  // Keeps a status of the machine for publishing. Returns false if it is already known.
  bool setStatus(Change change, rpc::MachineStatusSpec::Reader status);
  // Publishes the status that waits, if there is one.
  kj::Promise<Answers> publishStatus();

 private:
  struct Message {
    kj::String id;
    kj::Array<kj::byte> bytes;
  };
  kj::String address;
  grpcapi::EventMessages messages{{.data = 1, .id = 2}};
  grpc::Client client;
  Spool::Place batch;         // end of the batch whose events are being published
  size_t published = 0;       // lines of this batch whose events were published
  Answers answers;            // to the events of this batch
  Change newest;              // of the machine's status
  kj::Maybe<Message> status;  // `newest`, if it waits

  void warnOfLost(const Spool::Batch& batch, uint64_t dropped);
  // Returns nullptr for an event that Talos does not have. A line that is no whole event counts as
  // refused.
  kj::Maybe<Message> messageOf(kj::ArrayPtr<const char> line);
  kj::Promise<void> send(kj::ArrayPtr<const kj::byte> message, Answers& answers);
  kj::Promise<void> sendStatus(Answers& answers);
};

kj::Own<EventReceiver> eventReceiver(ReceiverDependencies deps, ReceiverAddress address);

}  // namespace talos::logd
