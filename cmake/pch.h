// Precompiled for every unit: the parts of KJ and Cap'n Proto that most files include.
#pragma once
#include <capnp/capability.h>
#include <capnp/dynamic.h>
#include <capnp/message.h>
#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/async.h>
#include <kj/common.h>
#include <kj/debug.h>
#include <kj/function.h>
#include <kj/map.h>
#include <kj/memory.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>
