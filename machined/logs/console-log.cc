#include "machined/logs/console-log.h"

#include <capnp/schema.h>

#include "common/base/lines.h"

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

// Passes on what the ring sends, as records. Each call is answered when the reader has processed
// it: then the end of the log is the end of the call.
class RecordSink final : public rpc::LogSink::Server {
 public:
  explicit RecordSink(rpc::LogSink::Client reader) : reader(kj::mv(reader)) {}

 protected:
  kj::Promise<void> write(WriteContext context) override {
    constexpr uint16_t kWrite = 0;  // LogSink.write @0
    auto params = context.getParams();
    kj::Vector<char> records;
    for (auto line : Lines(params.getBytes().asChars())) {
      records.addAll(consoleLogRecord(line));
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
};

}  // namespace

kj::String consoleLogRecord(kj::ArrayPtr<const char> line) {
  constexpr kj::StringPtr kSource = "user:    info: "_kj;
  if (!hasTime(line)) return kj::str(kSource, "[talos] ", line);
  auto part = [&](size_t from, size_t to) { return line.slice(from, to); };
  return kj::str(kSource, "[", part(0, 4), "-", part(5, 7), "-", part(8, 10), "T", part(11, 19),
                 ".000000000Z]: [talos] ", part(kTime.size(), line.size()));
}

kj::Promise<void> serveConsoleLog(Logs& logs, rpc::Logs::KernelParams::Reader params) {
  return logs.read(kRing, params.getFollow(), params.getOnlyNew() ? 0 : -1,
                   params.getFromSequence(), kj::heap<RecordSink>(params.getSink()));
}

}  // namespace talos::machined
