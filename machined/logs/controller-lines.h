// The log `controller-runtime`: the lines of all controllers of the node, in machined and in
// daemons.
//
// A daemon writes the lines of its controllers to its log (common/base/controller-log.h), from
// which machined copies them. A daemon may write lines only for the controllers that the table
// names for it. A line is copied once, when it arrives in the daemon's log; if the brain crashes
// exactly in between, the line is only in the daemon's log.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

namespace talos::machined {

constexpr kj::StringPtr kControllerLog = "controller-runtime"_kj;

// Returns one line of the log, without a newline; times are UTC.
kj::String controllerLogLine(kj::Date time, kj::StringPtr controller, kj::StringPtr message);

// Returns true if the daemon has controllers.
bool runsControllers(kj::StringPtr daemon);
// Returns the lines for the log of controllers, with newlines, among whole lines of the daemon's
// log.
kj::String controllerLinesOf(kj::StringPtr daemon, kj::ArrayPtr<const char> lines);

}  // namespace talos::machined
