// One receiver: follows the logs of its streams into its spool (spool.h), and sends the spooled
// lines.
//
// In the order of each log, every line reaches the receiver once while its connection lasts. A line
// counts as sent when the receiver has acknowledged it (receiver.h) and its connection has lived
// for kGrace since: the host that acknowledges may be a load balancer without a receiver, which
// resets the connection a moment later. After a lost connection, a crash of this program or of
// machined, sending continues after the last line that counts as sent. Lines that were on their way
// before are marked as repeated, and counted. After a power cut, lines of the last two seconds may
// be missing, or come twice without the mark. Lines that did not fit into the spool, or that the
// disk has damaged there, are counted, and the receiver gets a line with their number, or that of
// their bytes, in their place. Memory is bounded: a batch of
// lines, and kMostInFlight bytes in the kernel; a slow receiver only lets the spool grow to its
// bound.
#pragma once

#include <deque>

#include "common/base/backoff.h"
#include "common/base/signal.h"
#include "logd/event-receiver.h"
#include "logd/line-format.h"
#include "logd/otlp-receiver.h"
#include "logd/spool.h"
#include "rpc/local.capnp.h"

namespace talos::logd {

constexpr uint64_t kMostInFlight = 1u << 20;
// HAProxy resets after three attempts, one second apart, to reach a receiver that refuses.
constexpr auto kGrace = 5 * kj::SECONDS;
constexpr size_t kMostOfRequest = 256u << 10;  // for OTLP: bytes of lines

struct DestinationSettings {
  kj::String endpoint;
  config::LogFormat format = config::LogFormat::JSON_LINES;
  kj::Array<config::LogStream> streams;
  kj::Array<LineTag> tags;
  kj::String authorities;
  uint64_t bufferBytes = 0;
  kj::Array<OtlpHeader> headers;
  config::LogCompression compression = config::LogCompression::NONE;
  bool operator==(const DestinationSettings& other) const;
};

struct DestinationStatus : Spool::Counts {
  bool connected = false;
  kj::Date since = kj::UNIX_EPOCH;
  uint64_t waitingBytes = 0;
  kj::String lastError;
};

// Dials a receiver; tests dial a model.
using Dial = kj::Function<kj::Promise<kj::Own<ReceiverConnection>>()>;
using Connection = kj::OneOf<Dial, kj::Own<OtlpReceiver>, kj::Own<EventReceiver>>;

struct DestinationDependencies {
  kj::Timer& timer;
  const kj::Clock& clock;
  kj::Function<double()>& random;
  DiskQueue& disk;
  rpc::Machined::Client machined;  // dials again
  const kj::String& hostname;
};

class Destination {
 public:
  // All arguments outlive it.
  Destination(DestinationDependencies deps, DestinationSettings settings, kj::String folder,
              Connection connection);
  ~Destination() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Destination);

  const DestinationSettings& settings() const { return set; }
  DestinationStatus status() const;
  // Says which status the machine has; receivers of events get it.
  void setMachineStatus(EventReceiver::Change change, rpc::MachineStatusSpec::Reader status) {
    KJ_IF_MAYBE (receiver, connection.tryGet<kj::Own<EventReceiver>>()) {
      if ((*receiver)->setStatus(change, status)) arrived.raise();
    }
  }

 private:
  class FeedLink;
  class FeedSink;
  struct Disk;
  struct InFlight {
    uint64_t end;  // position in the connection's bytes
    Spool::Place next;
    uint64_t reported;
  };
  struct Acknowledged {
    kj::TimePoint until;  // then these lines count as sent
    Spool::Place next;
    uint64_t reported;
  };
  DestinationDependencies deps;
  DestinationSettings set;
  Connection connection;
  std::shared_ptr<Disk> disk;
  DestinationStatus current;
  kj::TimePoint connectedAt = kj::origin<kj::TimePoint>();
  Signal arrived, sent;
  std::deque<InFlight> inFlight;
  std::deque<Acknowledged> acknowledged;
  kj::Promise<void> running = nullptr;

  template <typename F>
  auto onDisk(F work) -> kj::Promise<decltype(work(kj::instance<Spool&>()))>;
  template <typename F>
  kj::Promise<void> store(F write);
  kj::Promise<void> run();
  kj::Promise<void> feed();
  kj::Promise<void> deliver();
  kj::Promise<void> deliverOnce();  // Runs until the connection breaks.
  kj::Promise<void> send(ReceiverConnection& connection);
  kj::Promise<void> writeBatch(ReceiverConnection& connection, Spool::Batch batch,
                               uint64_t dropped);
  kj::Promise<void> acknowledge(ReceiverConnection& connection);
  kj::Promise<bool> takeAcknowledged(ReceiverConnection& connection);
  kj::Promise<void> settleAcknowledged();
  bool datagrams() const { return set.endpoint.startsWith("udp:"); }
  kj::Promise<void> exportLines(OtlpReceiver& receiver);
  struct Export;
  kj::Promise<Export> collect(size_t most);
  kj::Array<char> requestOf(const Export& lines);
  kj::Promise<OtlpAnswer> post(OtlpReceiver& receiver, const Export& lines);
  kj::Promise<void> settle(const Export& lines, uint64_t refused, bool accepted);
  kj::Promise<void> publishEvents(EventReceiver& receiver);
  kj::Promise<void> syncRegularly();
  void setConnected(bool connected);
  void setError(kj::StringPtr error);
  void setRefused(uint64_t lines, kj::StringPtr error);
};

}  // namespace talos::logd
