// LogFeed: all logs of the machine for logd, which sends them to other machines.
//
// A follower names the position of each log that it has, and gets every line from there on, once
// and in the order of the log, at the pace at which it takes them: nothing is kept for it but a
// number for each log. The rings are the buffer, and outlive the brain; a follower that is slower
// than they are large learns how much was overwritten. Whoever follows must itself keep what it got
// and the position behind it: after a crash of either side it asks again.
#pragma once

#include "machined/logs/event-ring.h"
#include "machined/logs/log-store.h"
#include "rpc/local.capnp.h"

namespace talos::machined {

// Of all clients together.
constexpr unsigned kMostLogFollowers = 16;

// `kernel` follows the kernel's log from a sequence number on, until it is dropped. All outlive it.
using FollowKernel = kj::Function<kj::Promise<void>(uint64_t from, rpc::LogSink::Client sink)>;
rpc::LogFeed::Client serveLogFeed(Logs& logs, Events& events, kj::String bootId,
                                  FollowKernel kernel);

}  // namespace talos::machined
