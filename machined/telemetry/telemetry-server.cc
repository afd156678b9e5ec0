#include "machined/telemetry/telemetry-server.h"

namespace talos::machined {
namespace {

class EventsServer final : public rpc::Events::Server {
 public:
  explicit EventsServer(Events& events) : events(events) {}
  kj::Promise<void> watch(WatchContext context) override {
    auto params = context.getParams();
    return events.watch(params.getTail(), params.getSink());
  }

 private:
  Events& events;
};

class LogsServer final : public rpc::Logs::Server {
 public:
  LogsServer(Logs& logs, KernelLog kernelLog) : logs(logs), kernelLog(kj::mv(kernelLog)) {}

  kj::Promise<void> list(ListContext context) override {
    auto ids = logs.ids();
    auto out = context.getResults().initIds(ids.size());
    for (size_t i = 0; i < ids.size(); i++) out.set(i, ids[i]);
    return kj::READY_NOW;
  }
  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    return logs.read(params.getId(), params.getFollow(), params.getTailLines(), params.getFrom(),
                     params.getSink());
  }
  kj::Promise<void> kernel(KernelContext context) override {
    return kernelLog(context.getParams());
  }

 private:
  Logs& logs;
  KernelLog kernelLog;
};

}  // namespace

rpc::Events::Client serveEvents(Events& events) {
  return kj::heap<EventsServer>(events);
}

rpc::Logs::Client serveLogs(Logs& logs, KernelLog kernel) {
  return kj::heap<LogsServer>(logs, kj::mv(kernel));
}

}  // namespace talos::machined
