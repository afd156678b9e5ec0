// One HTTP/2 connection as a client of gRPC has it: nghttp2 over a stream of KJ's. Only
// grpc-client.cc uses it, and the test of what a hostile server can do.
//
// It lives as long as one of its calls or whoever made it; when its stream ends or its server
// breaks the protocol, all calls end with the reason and no new one can be begun.
#pragma once

#include <kj/async-io.h>
#include <kj/refcount.h>
#include <kj/timer.h>

#include "common/grpc/grpc-client.h"

namespace talos::grpc {

class Session : public kj::Refcounted {
 public:
  // Can take one more call.
  virtual bool usable() const = 0;
  virtual kj::Own<Call> open(kj::StringPtr path, kj::ArrayPtr<const Metadata> metadata,
                             kj::Maybe<kj::Duration> deadline) = 0;
  virtual unsigned calls() const = 0;  // that are open
};

kj::Own<Session> beginSession(kj::Timer& timer, kj::String server,
                              kj::Own<kj::AsyncIoStream> stream, Wire wire = {});

}  // namespace talos::grpc
