// LogFeed: all logs of the machine for logd, which sends them to other machines.
//
// A follower names its position in each log, and gets every line from there on, once and in the
// order of the log, at its own pace: machined keeps only a number for each log. The rings are the
// buffer, and outlive the brain; a follower that is too slow for their size learns how much was
// overwritten. The follower must itself keep the received lines and the position after them: after
// a crash of either side it sends its positions again.
#pragma once

#include "machined/logs/event-ring.h"
#include "machined/logs/log-store.h"
#include "rpc/local.capnp.h"

namespace talos::machined {

// Limit for all clients together.
constexpr unsigned kMostLogFollowers = 16;

// `kernel` follows the kernel's log from a sequence number on, until it is dropped. All must
// outlive the result.
using FollowKernel = kj::Function<kj::Promise<void>(uint64_t from, rpc::LogSink::Client sink)>;
rpc::LogFeed::Client serveLogFeed(Logs& logs, Events& events, kj::String bootId,
                                  FollowKernel kernel);

}  // namespace talos::machined
