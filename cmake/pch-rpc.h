// The same and the schemas that are large: for the rooms that include one of them.
#pragma once
#include "cmake/pch.h"
#include "rpc/all-resources.h"
#include "rpc/config.capnp.h"
#include "rpc/machine.capnp.h"
#include "rpc/node.capnp.h"
#include "rpc/resources.capnp.h"
