#include "logd/destination.h"

#include <kj/debug.h>
#include <kj/refcount.h>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/log.h"
#include "logd/otlp-request.h"

namespace talos::logd {
namespace {

using config::LogFormat;
using config::LogStream;

constexpr auto kSyncPause = 2 * kj::SECONDS, kDiskPause = 1 * kj::SECONDS;
constexpr auto kFirstLook = 5 * kj::MILLISECONDS, kLastLook = 50 * kj::MILLISECONDS;
// Lines that are acknowledged within this time count as sent together.
constexpr auto kGraceStep = 500 * kj::MILLISECONDS;
constexpr Backoff::Pace kDialPace{
    .first = 1 * kj::SECONDS, .longest = 30 * kj::SECONDS, .chance0 = 0.5, .chance1 = 1.5};
constexpr Backoff::Pace kFeedPace{
    .first = 100 * kj::MILLISECONDS, .longest = 5 * kj::SECONDS, .chance0 = 0.5, .chance1 = 1.5};
constexpr size_t kLongestDatagram = 2048;  // RFC 5426, 3.2
constexpr kj::StringPtr kOwnId = "logd"_kj;

kj::String nameOfLog(LogStream stream, kj::StringPtr id) {
  if (stream == LogStream::KERNEL) return kj::str("the kernel log");
  if (stream == LogStream::EVENTS) return kj::str("the events");
  return kj::str("the log ", id);
}

// Calls `use` with a line that logd writes itself.
void withNotice(kj::String text, kj::Date received, kj::FunctionParam<void(const LogLine&)> use) {
  auto line = log::format(log::Level::kWarning, text, {});
  use({.id = kOwnId, .text = line, .received = received});
}

// Calls `use` for each line of a batch; the line is valid during the call.
void forEachLine(const Spool::Batch& batch, uint64_t dropped,
                 kj::FunctionParam<void(const LogLine&)> use) {
  if (dropped > 0) {
    withNotice(kj::str(dropped, " lines were dropped: the buffer for this receiver was full"),
               batch.received, [&](auto& line) { use(line); });
  }
  for (auto line : Lines(batch.lines)) {
    if (batch.damaged > 0) {
      withNotice(kj::str(line), batch.received, [&](auto& notice) { use(notice); });
    } else if (batch.missed) {
      withNotice(kj::str(nameOfLog(batch.stream, batch.id), ": ", line), batch.received,
                 [&](auto& notice) { use(notice); });
    } else {
      use({.stream = batch.stream, .id = batch.id, .text = line, .received = batch.received});
    }
  }
}
}  // namespace

bool DestinationSettings::operator==(const DestinationSettings& other) const {
  if (endpoint != other.endpoint || format != other.format || streams != other.streams ||
      authorities != other.authorities || bufferBytes != other.bufferBytes ||
      compression != other.compression || tags.size() != other.tags.size() ||
      headers.size() != other.headers.size()) {
    return false;
  }
  for (auto i : kj::indices(headers)) {
    kj::StringPtr value = headers[i].value, otherValue = other.headers[i].value;
    if (headers[i].name != other.headers[i].name || value != otherValue) return false;
  }
  for (auto i : kj::indices(tags)) {
    if (tags[i].key != other.tags[i].key || tags[i].value != other.tags[i].value) return false;
  }
  return true;
}

// Only the disk's thread uses this.
struct Destination::Disk {
  kj::String folder;
  uint64_t bound;
  kj::Maybe<kj::Own<Spool>> spool;

  Spool& get() {
    KJ_IF_MAYBE (s, spool) return **s;
    return *spool.emplace(kj::heap<Spool>(folder, bound));
  }
};

template <typename F>
auto Destination::onDisk(F work) -> kj::Promise<decltype(work(kj::instance<Spool&>()))> {
  using Result = decltype(work(kj::instance<Spool&>()));
  struct Done {
    Spool::Counts counts;
    uint64_t waiting = 0;
    kj::Maybe<Result> result;
  };
  auto done = std::make_shared<Done>();
  co_await deps.disk.run([disk = disk, work = kj::mv(work), done]() mutable {
    auto& spool = disk->get();
    // A spool that failed is opened again: its files have the state.
    KJ_ON_SCOPE_FAILURE(disk->spool = nullptr);
    done->result = work(spool);
    done->counts = spool.counts();
    done->waiting = spool.waitingBytes();
  });
  Spool::Counts& counts = current;
  counts = done->counts;
  current.waitingBytes = done->waiting;
  co_return kj::mv(KJ_ASSERT_NONNULL(done->result));
}

// --- from the logs to the disk

// A sink's reference to its destination. machined holds a sink for longer than the destination
// follows, and lines may still be on their way: once end() has returned, they are refused and do
// not reach the destination.
class Destination::FeedLink final : public kj::Refcounted {
 public:
  explicit FeedLink(Destination& to) : to(to) {}

  void end() {
    to = nullptr;
    canceler.cancel("the logs are not followed any more");
  }
  template <typename F>
  kj::Promise<void> store(F write) {
    KJ_IF_MAYBE (destination, to) return canceler.wrap(destination->store(kj::mv(write)));
    return error(ErrorKind::kUnavailable, "the logs are not followed any more");
  }

 private:
  kj::Maybe<Destination&> to;
  kj::Canceler canceler;
};

class Destination::FeedSink final : public rpc::LogFeedSink::Server {
 public:
  FeedSink(kj::Own<FeedLink> link, const kj::Clock& clock) : link(kj::mv(link)), clock(clock) {}

 protected:
  kj::Promise<void> begin(BeginContext context) override {
    return link->store(
        [boot = kj::str(context.getParams().getBoot())](Spool& spool) { spool.begin(boot); });
  }
  kj::Promise<void> lines(LinesContext context) override {
    auto params = context.getParams();
    return link->store(
        [stream = params.getStream(), id = kj::str(params.getId()), now = clock.now(),
         bytes = kj::heapArray<char>(params.getBytes().asChars()),
         next = params.getNext()](Spool& spool) { spool.append(stream, id, now, bytes, next); });
  }
  kj::Promise<void> missed(MissedContext context) override {
    auto params = context.getParams();
    return link->store([stream = params.getStream(), id = kj::str(params.getId()),
                        now = clock.now(), count = params.getCount(), next = params.getNext()](
                           Spool& spool) { spool.appendMissed(stream, id, now, count, next); });
  }

 private:
  kj::Own<FeedLink> link;
  const kj::Clock& clock;
};

// Retries until the disk accepts the work: meanwhile the logs wait, and their rings are the buffer.
template <typename F>
kj::Promise<void> Destination::store(F write) {
  auto shared = std::make_shared<F>(kj::mv(write));
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    try {
      co_await onDisk([shared](Spool& spool) {
        (*shared)(spool);
        return true;
      });
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (e, failure) {
      setError(kj::str("cannot write the lines to the disk: ", messageOf(*e)));
      co_await deps.timer.afterDelay(kDiskPause);
    } else {
      break;
    }
  }
  arrived.raise();
}

kj::Promise<void> Destination::feed() {
  Backoff backoff(kFeedPace);
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    try {
      auto request = deps.machined.logFeedRequest().send().getFeed().followRequest();
      struct Known {
        kj::String boot;
        std::map<Spool::Log, uint64_t> positions;
      };
      auto known = co_await onDisk(
          [](Spool& spool) { return Known{kj::str(spool.boot()), spool.positions()}; });
      request.setStreams(set.streams.asPtr());
      request.setBoot(known.boot);
      auto list = request.initKnown(known.positions.size());
      unsigned i = 0;
      for (auto& entry : known.positions) {
        auto one = list[i++];
        one.setStream(entry.first.first);
        one.setId(entry.first.second.c_str());
        one.setNext(entry.second);
      }
      auto link = kj::refcounted<FeedLink>(*this);
      KJ_DEFER(link->end());
      request.setSink(kj::heap<FeedSink>(kj::addRef(*link), deps.clock));
      co_await request.send().ignoreResult();
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (e, failure) setError(kj::str("cannot follow the logs: ", messageOf(*e)));
    co_await deps.timer.afterDelay(backoff.next(deps.random()));
  }
}

// --- from the disk to the receiver

kj::Promise<void> Destination::writeBatch(ReceiverConnection& connection, Spool::Batch batch,
                                          uint64_t dropped) {
  FormatOptions options{.format = set.format,
                        .tags = set.tags,
                        .hostname = deps.hostname,
                        .longest = datagrams() ? kLongestDatagram : SIZE_MAX,
                        .octetCounting = !datagrams(),
                        .newline = !datagrams(),
                        .repeated = batch.repeated};
  kj::Vector<char> out;
  kj::Vector<size_t> ends;  // ends of datagrams
  forEachLine(batch, dropped, [&](const LogLine& line) {
    formatLine(line, options, out);
    ends.add(out.size());
  });
  size_t begin = 0;
  for (auto end : ends) {
    if (datagrams()) co_await connection.write(out.asPtr().slice(begin, end));
    begin = end;
  }
  if (!datagrams()) co_await connection.write(out);
  inFlight.push_back({connection.written(), batch.next, dropped});
  sent.raise();
}

kj::Promise<void> Destination::send(ReceiverConnection& connection) {
  auto from = co_await onDisk([](Spool& spool) { return spool.cursor(); });
  uint64_t reported = 0;  // reported on this connection, not delivered yet
  for (;;) {
    auto more = arrived.next();
    struct Next {
      kj::Maybe<Spool::Batch> batch;
      uint64_t dropped;
    };
    auto next = co_await onDisk(
        [from](Spool& spool) { return Next{spool.take(from), spool.unreported()}; });
    KJ_IF_MAYBE (batch, next.batch) {
      reported = 0;
      for (auto& one : inFlight) reported += one.reported;
      for (auto& one : acknowledged) reported += one.reported;
      from = batch->next;
      auto dropped = next.dropped > reported ? next.dropped - reported : 0;
      co_await writeBatch(connection, kj::mv(*batch), dropped);
      while (inFlight.size() > 0 &&
             connection.written() - connection.delivered().orDefault(0) > kMostInFlight) {
        co_await deps.timer.afterDelay(kFirstLook);
      }
    } else {
      co_await more;
    }
  }
}

// Polls the acknowledgements, less and less often, because the kernel does not report their
// arrival.
kj::Promise<void> Destination::acknowledge(ReceiverConnection& connection) {
  auto pause = kFirstLook;
  for (;;) {
    auto more = sent.next();
    if (co_await takeAcknowledged(connection)) pause = kFirstLook;
    co_await settleAcknowledged();
    if (!inFlight.empty()) {
      co_await deps.timer.afterDelay(pause);
      pause = kj::min(pause * 2, kLastLook);
      continue;
    }
    pause = kFirstLook;
    if (!acknowledged.empty()) {
      more = more.exclusiveJoin(deps.timer.atTime(acknowledged.front().until));
    }
    co_await more;
  }
}

// Returns true if more lines are acknowledged than before. Unavailable if the connection has ended:
// the kernel may know this before ended() does.
kj::Promise<bool> Destination::takeAcknowledged(ReceiverConnection& connection) {
  uint64_t delivered;
  KJ_IF_MAYBE (bytes, connection.delivered()) {
    delivered = *bytes;
  } else {
    fail(ErrorKind::kUnavailable, "the receiver closed the connection");
  }
  auto now = deps.timer.now();
  // Nothing can show that a datagram was lost later.
  auto earliest = now + (datagrams() ? 0 * kj::SECONDS : kGrace);
  auto until = earliest + (datagrams() ? 0 * kj::SECONDS : kGraceStep);
  kj::Maybe<Spool::Place> place;
  while (!inFlight.empty() && inFlight.front().end <= delivered) {
    auto& one = inFlight.front();
    place = one.next;
    if (acknowledged.empty() || acknowledged.back().until < earliest) {
      acknowledged.push_back({until, one.next, 0});
    }
    acknowledged.back().next = one.next;
    acknowledged.back().reported += one.reported;
    inFlight.pop_front();
  }
  KJ_IF_MAYBE (p, place) {
    co_await onDisk([place = *p](Spool& spool) {
      spool.acknowledged(place);
      return true;
    });
  }
  co_return place != nullptr;
}

// Counts lines as sent whose connection has lived for long enough.
kj::Promise<void> Destination::settleAcknowledged() {
  uint64_t reported = 0;
  kj::Maybe<Spool::Place> place;
  while (!acknowledged.empty() && acknowledged.front().until <= deps.timer.now()) {
    place = acknowledged.front().next;
    reported += acknowledged.front().reported;
    acknowledged.pop_front();
  }
  KJ_IF_MAYBE (p, place) {
    co_await onDisk([place = *p, reported](Spool& spool) {
      spool.delivered(place, reported);
      return true;
    });
  }
}

// --- from the disk to a receiver of OTLP

// The whole batches of one request.
struct Destination::Export {
  kj::Vector<Spool::Batch> batches;
  size_t bytes = 0;
  uint64_t lines = 0, repeated = 0, dropped = 0;  // `repeated`: lines that were sent before
};

// Returns at least one batch, if there is one.
kj::Promise<Destination::Export> Destination::collect(size_t most) {
  return onDisk([most](Spool& spool) {
    Export all;
    all.dropped = spool.unreported();
    for (auto from = spool.cursor();;) {
      KJ_IF_MAYBE (batch, spool.read(from)) {
        if (all.bytes > 0 && all.bytes + batch->lines.size() > most) break;
        from = batch->next;
        all.bytes += batch->lines.size();
        all.lines += batch->count;
        all.repeated += batch->repeated ? batch->count : 0;
        all.batches.add(kj::mv(*batch));
      } else {
        break;
      }
    }
    return all;
  });
}

kj::Array<char> Destination::requestOf(const Export& lines) {
  OtlpRequest request(set.tags, deps.hostname);
  auto dropped = lines.dropped;
  for (auto& batch : lines.batches) {
    forEachLine(batch, dropped, [&](const LogLine& line) { request.add(line); });
    dropped = 0;
  }
  return request.finish();
}

// Sends the lines, and notes that they were sent, whether the receiver answered or not.
kj::Promise<OtlpAnswer> Destination::post(OtlpReceiver& receiver, const Export& lines) {
  auto request = requestOf(lines);
  auto before = receiver.sentRequests();
  kj::Maybe<OtlpAnswer> answer;
  kj::Maybe<kj::Exception> failure;
  try {
    answer = co_await receiver.post(request);
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  auto times = receiver.sentRequests() - before;
  if (times > 0) {
    co_await onDisk([place = lines.batches.back().next,
                     again = lines.repeated + (times - 1) * lines.lines](Spool& spool) {
      spool.sent(place, again);
      return true;
    });
  }
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
  co_return kj::mv(KJ_ASSERT_NONNULL(answer));
}

// Settles lines that are not sent again. Refused lines did not carry the report of the lines
// dropped before them, either.
kj::Promise<void> Destination::settle(const Export& lines, uint64_t refused, bool accepted) {
  return onDisk([place = lines.batches.back().next, refused,
                 reported = accepted ? lines.dropped : 0](Spool& spool) {
           spool.delivered(place, reported, refused);
           return true;
         })
      .ignoreResult();
}

kj::Promise<void> Destination::exportLines(OtlpReceiver& receiver) {
  using Outcome = OtlpAnswer::Outcome;
  Backoff backoff(kDialPace);
  size_t most = kMostOfRequest;
  for (;;) {
    auto more = arrived.next();
    auto lines = co_await collect(most);
    if (lines.batches.empty()) {
      co_await more;
      continue;
    }
    auto answer = co_await post(receiver, lines);
    if (!current.connected) setConnected(true);
    if (answer.outcome == Outcome::kLater) {
      setError(kj::str("the receiver answered ", answer.message));
      auto pause = backoff.next(deps.random());
      co_await deps.timer.afterDelay(kj::max(answer.pause.orDefault(pause), pause));
      continue;
    }
    backoff.reset();
    if (answer.outcome == Outcome::kTooLarge && lines.batches.size() > 1) {
      most = lines.bytes / 2;
      continue;
    }
    bool accepted = answer.outcome == Outcome::kAccepted;
    auto refused = accepted ? kj::min(answer.rejected, lines.lines) : lines.lines;
    bool whole = accepted && refused == 0;
    if (!whole) setRefused(refused, answer.message);
    co_await settle(lines, refused, accepted);
    if (whole) current.lastError = kj::String();
  }
}

// --- from the disk to a receiver of events

kj::Promise<void> Destination::publishEvents(EventReceiver& receiver) {
  for (;;) {
    auto more = arrived.next();
    struct Next {
      kj::Maybe<Spool::Batch> batch;
      uint64_t dropped;
    };
    auto next = co_await onDisk(
        [](Spool& spool) { return Next{spool.read(spool.cursor()), spool.unreported()}; });
    EventReceiver::Answers answers;
    KJ_IF_MAYBE (batch, next.batch) {
      answers = co_await receiver.publish(*batch, next.dropped);
    } else {
      answers = co_await receiver.publishStatus();
    }
    if (answers.all > 0) {
      if (!current.connected) setConnected(true);
      current.lastError = kj::String();
    }
    if (answers.refused > 0) setRefused(answers.refused, answers.error);
    KJ_IF_MAYBE (batch, next.batch) {
      co_await onDisk(
          [place = batch->next, dropped = next.dropped, refused = answers.refused](Spool& spool) {
            spool.delivered(place, dropped, refused);
            return true;
          });
    } else {
      co_await more;
    }
  }
}

// --- either way

kj::Promise<void> Destination::deliverOnce() {
  KJ_IF_MAYBE (receiver, connection.tryGet<kj::Own<OtlpReceiver>>()) {
    co_await exportLines(**receiver);
    co_return;
  }
  KJ_IF_MAYBE (receiver, connection.tryGet<kj::Own<EventReceiver>>()) {
    co_await publishEvents(**receiver);
    co_return;
  }
  auto stream = co_await connection.get<Dial>()();
  setConnected(true);
  co_await send(*stream).exclusiveJoin(acknowledge(*stream)).exclusiveJoin(stream->ended());
}

kj::Promise<void> Destination::deliver() {
  Backoff backoff(kDialPace);
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    try {
      co_await deliverOnce();
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    if (current.connected) {
      if (deps.timer.now() - connectedAt > kDialPace.longest) backoff.reset();
      setConnected(false);
    }
    inFlight.clear();
    acknowledged.clear();
    // A spool that fails is opened again, without acknowledged lines.
    co_await onDisk([](Spool& spool) {
      spool.acknowledged({});
      return true;
    })
        .ignoreResult()
        .catch_([](kj::Exception&&) {});
    KJ_IF_MAYBE (e, failure) setError(messageOf(*e));
    co_await deps.timer.afterDelay(backoff.next(deps.random()));
  }
}

kj::Promise<void> Destination::syncRegularly() {
  for (;;) {
    co_await deps.timer.afterDelay(kSyncPause);
    co_await onDisk([](Spool& spool) {
      spool.sync();
      return true;
    })
        .ignoreResult()
        .catch_([this](kj::Exception&& e) {
          setError(kj::str("cannot write the lines to the disk: ", messageOf(e)));
        });
  }
}

Destination::Destination(DestinationDependencies d, DestinationSettings settings, kj::String folder,
                         Connection c)
    : deps(d),
      set(kj::mv(settings)),
      connection(kj::mv(c)),
      disk(std::make_shared<Disk>(kj::mv(folder), set.bufferBytes)) {
  current.since = deps.clock.now();
  running = run().eagerlyEvaluate([this](kj::Exception&& e) { setError(messageOf(e)); });
}

// The last use of the spool runs on the disk's thread.
Destination::~Destination() noexcept(false) {
  running = nullptr;
  deps.disk.add([disk = kj::mv(disk)]() {});
}

kj::Promise<void> Destination::run() {
  return feed().exclusiveJoin(deliver()).exclusiveJoin(syncRegularly());
}

DestinationStatus Destination::status() const {
  DestinationStatus status;
  Spool::Counts& counts = status;
  counts = current;
  status.connected = current.connected;
  status.since = current.since;
  status.waitingBytes = current.waitingBytes;
  status.lastError = kj::str(current.lastError);
  return status;
}

void Destination::setConnected(bool connected) {
  current.connected = connected;
  current.since = deps.clock.now();
  connectedAt = deps.timer.now();
  if (connected) {
    current.lastError = kj::String();
    log::info("connected", {{"endpoint", set.endpoint}});
  }
}

void Destination::setRefused(uint64_t lines, kj::StringPtr error) {
  current.lastError = kj::str("the receiver refused lines: ", error);
  log::warn("the receiver refused lines; they are dropped",
            {{"endpoint", set.endpoint}, {"count", kj::str(lines)}, {"error", error}});
}

void Destination::setError(kj::StringPtr error) {
  if (current.lastError == error) return;
  current.lastError = kj::str(error);
  log::warn("cannot send logs; retrying", {{"endpoint", set.endpoint}, {"error", error}});
}

}  // namespace talos::logd
