// The log `controller-runtime`: the lines of all controllers of the node, of those of machined and
// of those that run in daemons.
//
// A daemon writes the lines of its controllers to its own log (common/base/controller-log.h), from
// which machined copies them. A daemon may speak for the controllers that the table names, and for
// no others. A line is copied once, when it comes to the daemon's log; a crash of the brain right
// between the two leaves it in the daemon's log alone.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

namespace talos::machined {

constexpr kj::StringPtr kControllerLog = "controller-runtime"_kj;

// One line of it, without a newline; times are UTC.
kj::String controllerLogLine(kj::Date time, kj::StringPtr controller, kj::StringPtr message);

// Has controllers of its own.
bool runsControllers(kj::StringPtr daemon);
// The lines for the log of controllers, with newlines, among whole lines of the daemon's log.
kj::String controllerLinesOf(kj::StringPtr daemon, kj::ArrayPtr<const char> lines);

}  // namespace talos::machined
