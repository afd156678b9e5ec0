// Takes the lines of a log as they come.
#pragma once

#include <kj/function.h>

#include "common/base/lines.h"
#include "rpc/stream.capnp.h"

namespace talos::talosctl {

class LogTail final : public rpc::LogSink::Server {
 public:
  explicit LogTail(kj::Function<void(kj::String line)> add) : add(kj::mv(add)) {}
  kj::Promise<void> write(WriteContext context) override {
    for (auto line : Lines(context.getParams().getBytes().asChars())) add(kj::heapString(line));
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext) override { return kj::READY_NOW; }

 private:
  kj::Function<void(kj::String line)> add;
};

}  // namespace talos::talosctl
