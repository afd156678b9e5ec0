#include "machined/logs/console-log.h"

#include <capnp/schema.h>

#include "common/base/lines.h"
#include "machined/logs/log-since.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kRing = "machined"_kj;
constexpr kj::StringPtr kTime = "dddd/dd/dd dd:dd:dd "_kj;

bool hasTime(kj::ArrayPtr<const char> line) {
  if (line.size() < kTime.size()) return false;
  for (auto i : kj::indices(kTime)) {
    bool digit = line[i] >= '0' && line[i] <= '9';
    if (kTime[i] == 'd' ? !digit : line[i] != kTime[i]) return false;
  }
  return true;
}

// Passes the ring's lines on as records. Each call is answered when the reader has processed it, so
// that the end of the log is the end of the call.
class RecordSink final : public rpc::LogSink::Server {
 public:
  RecordSink(rpc::LogSink::Client reader, kj::String contains)
      : reader(kj::mv(reader)), contains(kj::mv(contains)) {}

 protected:
  kj::Promise<void> write(WriteContext context) override {
    constexpr uint16_t kWrite = 0;  // LogSink.write @0
    auto params = context.getParams();
    kj::Vector<char> records;
    for (auto line : Lines(params.getBytes().asChars())) {
      auto record = consoleLogRecord(line);
      if (!containsText(record, contains)) continue;
      records.addAll(record);
      records.add('\n');
    }
    auto request = reader.typelessRequest(capnp::typeId<rpc::LogSink>(), kWrite, nullptr, {});
    auto out = request.initAs<rpc::LogSink::WriteParams>();
    out.setBytes(records.asPtr().asBytes());
    out.setNext(params.getNext());
    return request.send().ignoreResult();
  }
  kj::Promise<void> missed(MissedContext context) override {
    auto request = reader.missedRequest();
    request.setBytes(context.getParams().getBytes());
    return request.send();
  }

 private:
  rpc::LogSink::Client reader;
  kj::String contains;
};

}  // namespace

kj::String consoleLogRecord(kj::ArrayPtr<const char> line) {
  constexpr kj::StringPtr kSource = "user:    info: "_kj, kOwn = "[talos] "_kj;
  // Process 1 writes the prefix itself.
  bool named = line.size() >= kOwn.size() && line.slice(0, kOwn.size()) == kOwn.asArray();
  if (!hasTime(line)) return kj::str(kSource, named ? ""_kj : kOwn, line);
  auto part = [&](size_t from, size_t to) { return line.slice(from, to); };
  return kj::str(kSource, "[", part(0, 4), "-", part(5, 7), "-", part(8, 10), "T", part(11, 19),
                 ".000000000Z]: [talos] ", part(kTime.size(), line.size()));
}

kj::Promise<void> serveConsoleLog(Logs& logs, rpc::Logs::KernelParams::Reader params) {
  LogQuery query{.follow = params.getFollow(),
                 .tailLines = params.getOnlyNew() ? 0 : -1,
                 .from = params.getFromSequence(),
                 .since = momentOf(params.getSince())};
  return logs.read(kRing, kj::mv(query),
                   kj::heap<RecordSink>(params.getSink(), kj::str(params.getContains())));
}

}  // namespace talos::machined
