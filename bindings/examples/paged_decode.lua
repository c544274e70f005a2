-- paged_decode.lua: gqa from LuaJIT by its ffi: one decode step on keys and values that lie in pages.
-- Owns: two sequences of different lengths, one new query token each, on the CPU in bfloat16; attention written out as
-- a loop, whose numbers the library's must be. Exits with 1 where they are not.
-- Never: needs anything but LuaJIT and an installed libgqa.so.0; where the loader does not know its folder,
-- LD_LIBRARY_PATH does.
--
--   luajit paged_decode.lua

local ffi = require("ffi")

-- What of gqa.h and dlpack.h is used. A gqa_call may end after window_size, a gqa_options before checked: their `size`
-- says how much of them there is.
ffi.cdef [[
  typedef struct { int32_t device_type, device_id; } DLDevice;
  typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
  typedef struct {
    void* data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t* shape; int64_t* strides; uint64_t byte_offset;
  } DLTensor;
  typedef struct gqa_handle_s* gqa_handle;
  typedef struct {
    size_t size; const char* device; const char* cache_path; int cache_mode; int tuning; double tuning_budget;
    int threads; const char* nvrtc_path; void* log; void* log_user;
  } gqa_options;
  typedef struct {
    size_t size; float scale; int causal; const DLTensor* lse; void* stream;
    const DLTensor* cache_seqlens; const DLTensor* page_table; const int32_t* window_size;
  } gqa_call;
  int gqa_version(void);
  const char* gqa_last_error(void);
  int gqa_create(const gqa_options* options, gqa_handle* handle);
  void gqa_destroy(gqa_handle handle);
  int gqa_run_ex(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                 const gqa_call* call);
  typedef union { float number; uint32_t bits; } float_bits;
]]
local gqa = ffi.load("libgqa.so.0")

local CPU, INT, BFLOAT = 1, 0, 4 -- kDLCPU, kDLInt, kDLBfloat
local Q_HEADS, KV_HEADS, DIM, PAGE, PAGES, COLUMNS = 8, 2, 64, 16, 6, 3
local LENGTHS = {37, 20} -- keys of each sequence, its new token's among them
local TABLE = {4, 1, 3, 5, 0, 0} -- its pages in order; past a length, any number
local BATCH = #LENGTHS

-- bfloat16 is the upper half of a float: to nearest, ties to even, and back.
local float = ffi.new("float_bits")
local function to_bf16(number)
  float.number = number
  return math.floor((float.bits + 0x7fff + math.floor(float.bits / 65536) % 2) / 65536)
end
local function from_bf16(half)
  float.bits = half * 65536
  return tonumber(float.number)
end

local kept = {} -- a C struct keeps nothing alive that it points to
local function tensor(data, code, bits, ...)
  local shape = ffi.new("int64_t[?]", select("#", ...), ...)
  local made = ffi.new("DLTensor", {data, {CPU, 0}, select("#", ...), {code, bits, 1}, shape}) -- no strides: compact
  kept[#kept + 1] = {data, shape, made}
  return made
end

local function random(count) -- in [-1, 1)
  local made = ffi.new("uint16_t[?]", count)
  for i = 0, count - 1 do made[i] = to_bf16(math.random() * 2 - 1) end
  return made
end

local function check(status)
  if status ~= 0 then error(ffi.string(gqa.gqa_last_error()), 2) end
end

local q, out = random(BATCH * Q_HEADS * DIM), random(BATCH * Q_HEADS * DIM)
local k, v = random(PAGES * PAGE * KV_HEADS * DIM), random(PAGES * PAGE * KV_HEADS * DIM)

local options = ffi.new("gqa_options", {size = ffi.sizeof("gqa_options"), device = "host"})
local handle = ffi.new("gqa_handle[1]")
check(gqa.gqa_create(options, handle))
local call = ffi.new("gqa_call", {size = ffi.sizeof("gqa_call"), causal = 1})
call.cache_seqlens = tensor(ffi.new("int32_t[?]", BATCH, LENGTHS), INT, 32, BATCH)
call.page_table = tensor(ffi.new("int32_t[?]", #TABLE, TABLE), INT, 32, BATCH, COLUMNS)
check(gqa.gqa_run_ex(handle[0], tensor(q, BFLOAT, 16, BATCH, 1, Q_HEADS, DIM),
  tensor(k, BFLOAT, 16, PAGES, PAGE, KV_HEADS, DIM), tensor(v, BFLOAT, 16, PAGES, PAGE, KV_HEADS, DIM),
  tensor(out, BFLOAT, 16, BATCH, 1, Q_HEADS, DIM), call))
gqa.gqa_destroy(handle[0])

local worst = 0
for b = 0, BATCH - 1 do
  for head = 0, Q_HEADS - 1 do
    local row, sum, expected = (b * Q_HEADS + head) * DIM, 0, {}
    for j = 0, LENGTHS[b + 1] - 1 do
      local page = TABLE[b * COLUMNS + math.floor(j / PAGE) + 1] -- Lua counts from 1
      local key = ((page * PAGE + j % PAGE) * KV_HEADS + math.floor(head / (Q_HEADS / KV_HEADS))) * DIM
      local score = 0
      for d = 0, DIM - 1 do score = score + from_bf16(q[row + d]) * from_bf16(k[key + d]) end
      local weight = math.exp(score / math.sqrt(DIM))
      sum = sum + weight
      for d = 0, DIM - 1 do expected[d] = (expected[d] or 0) + weight * from_bf16(v[key + d]) end
    end
    for d = 0, DIM - 1 do
      local off = math.abs(expected[d] / sum - from_bf16(out[row + d]))
      if off > worst or off ~= off then worst = off end -- NaN stays
    end
  end
end
local told = "LuaJIT: gqa %d, largest error %.5f in %d numbers"
print(told:format(gqa.gqa_version(), worst, BATCH * Q_HEADS * DIM))
os.exit(worst < 0.01 and 0 or 1)
