// PagedDecode.java: gqa from Java by JNA: one decode step on keys and values that lie in pages.
// Owns: two sequences of different lengths, one new query token each, on the CPU in bfloat16; attention written out as
// a loop, whose numbers the library's must be. Exits with 1 where they are not.
// Never: needs anything but a JDK (11 or newer), JNA and an installed libgqa.so.0; where the loader does not know its
// folder, LD_LIBRARY_PATH does. jna.jar is where Debian's libjna-java has it; another is as good.
//
//   java -cp /usr/share/java/jna.jar PagedDecode.java

import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.Structure;
import com.sun.jna.Structure.FieldOrder;
import com.sun.jna.ptr.PointerByReference;
import java.util.Random;

public class PagedDecode {
  // What of dlpack.h and gqa.h is used. A gqa_call may end after window_size, a gqa_options before checked: their
  // `size` says how much of them there is.
  @FieldOrder({"data", "deviceType", "deviceId", "ndim", "code", "bits", "lanes", "shape", "strides", "byteOffset"})
  public static class Tensor extends Structure {
    public Pointer data;
    public int deviceType = 1, deviceId, ndim; // kDLCPU
    public byte code, bits;
    public short lanes = 1;
    public Pointer shape, strides; // no strides: compact
    public long byteOffset;
  }

  @FieldOrder({"size", "device", "cachePath", "cacheMode", "tuning", "tuningBudget", "threads", "nvrtcPath", "log",
               "logUser"})
  public static class Options extends Structure {
    public long size; // a size_t of 64 bits
    public String device, cachePath;
    public int cacheMode, tuning;
    public double tuningBudget;
    public int threads;
    public String nvrtcPath;
    public Pointer log, logUser;
  }

  @FieldOrder({"size", "scale", "causal", "lse", "stream", "cacheSeqlens", "pageTable", "windowSize"})
  public static class Call extends Structure {
    public long size;
    public float scale;
    public int causal;
    public Pointer lse, stream, cacheSeqlens, pageTable, windowSize;
  }

  public interface Gqa extends Library {
    int gqa_version();
    String gqa_last_error();
    int gqa_create(Options options, PointerByReference handle);
    void gqa_destroy(Pointer handle);
    int gqa_run_ex(Pointer handle, Tensor q, Tensor k, Tensor v, Tensor out, Call call);
  }

  static final Gqa GQA = Native.load("libgqa.so.0", Gqa.class);
  static final int Q_HEADS = 8, KV_HEADS = 2, DIM = 64, PAGE = 16, PAGES = 6, COLUMNS = 3;
  static final int[] LENGTHS = {37, 20}; // keys of each sequence, its new token's among them
  static final int[] TABLE = {4, 1, 3, 5, 0, 0}; // its pages in order; past a length, any number
  static final int BATCH = LENGTHS.length;

  // bfloat16 is the upper half of a float: to nearest, ties to even, and back.
  static short toBF16(float number) {
    int bits = Float.floatToRawIntBits(number);
    return (short) ((bits + 0x7fff + (bits >>> 16 & 1)) >>> 16);
  }

  static double fromBF16(short half) {
    return Float.intBitsToFloat(half << 16);
  }

  static short[] random(int count, int seed) { // in [-1, 1)
    Random numbers = new Random(seed);
    short[] made = new short[count];
    for (int i = 0; i < count; ++i) made[i] = toBF16(numbers.nextFloat() * 2 - 1);
    return made;
  }

  static Tensor tensor(int code, int bits, Memory data, long... shape) {
    Tensor made = new Tensor();
    made.data = data;
    made.ndim = shape.length;
    made.code = (byte) code;
    made.bits = (byte) bits;
    made.shape = new Memory(8L * shape.length);
    made.shape.write(0, shape, 0, shape.length);
    made.write(); // a call is given its address alone
    return made;
  }

  static Tensor bfloat16s(short[] data, long... shape) {
    Memory copy = new Memory(2L * data.length);
    copy.write(0, data, 0, data.length);
    return tensor(4, 16, copy, shape); // kDLBfloat
  }

  static Tensor int32s(int[] data, long... shape) {
    Memory copy = new Memory(4L * data.length);
    copy.write(0, data, 0, data.length);
    return tensor(0, 32, copy, shape); // kDLInt
  }

  static void check(int status) {
    if (status != 0) throw new IllegalStateException(GQA.gqa_last_error());
  }

  static short[] decode(short[] q, short[] k, short[] v) {
    Options options = new Options();
    options.size = options.size();
    options.device = "host";
    PointerByReference handle = new PointerByReference();
    check(GQA.gqa_create(options, handle));
    Tensor lengths = int32s(LENGTHS, BATCH), table = int32s(TABLE, BATCH, COLUMNS);
    Tensor out = bfloat16s(new short[q.length], BATCH, 1, Q_HEADS, DIM);
    Call call = new Call();
    call.size = call.size();
    call.causal = 1;
    call.cacheSeqlens = lengths.getPointer();
    call.pageTable = table.getPointer();
    check(GQA.gqa_run_ex(handle.getValue(), bfloat16s(q, BATCH, 1, Q_HEADS, DIM),
        bfloat16s(k, PAGES, PAGE, KV_HEADS, DIM), bfloat16s(v, PAGES, PAGE, KV_HEADS, DIM), out, call));
    GQA.gqa_destroy(handle.getValue());
    return out.data.getShortArray(0, q.length);
  }

  // Query head `head` of sequence b, in double precision.
  static double[] expected(short[] q, short[] k, short[] v, int b, int head) {
    double[] row = new double[DIM];
    double sum = 0;
    for (int j = 0; j < LENGTHS[b]; ++j) {
      int page = TABLE[b * COLUMNS + j / PAGE];
      int key = ((page * PAGE + j % PAGE) * KV_HEADS + head / (Q_HEADS / KV_HEADS)) * DIM;
      double score = 0;
      for (int d = 0; d < DIM; ++d) score += fromBF16(q[(b * Q_HEADS + head) * DIM + d]) * fromBF16(k[key + d]);
      double weight = Math.exp(score / Math.sqrt(DIM));
      sum += weight;
      for (int d = 0; d < DIM; ++d) row[d] += weight * fromBF16(v[key + d]);
    }
    for (int d = 0; d < DIM; ++d) row[d] /= sum;
    return row;
  }

  public static void main(String[] arguments) {
    int rows = BATCH * Q_HEADS, slots = PAGES * PAGE * KV_HEADS;
    short[] q = random(rows * DIM, 1), k = random(slots * DIM, 2), v = random(slots * DIM, 3);
    short[] out = decode(q, k, v);
    double worst = 0;
    for (int row = 0; row < rows; ++row) {
      double[] numbers = expected(q, k, v, row / Q_HEADS, row % Q_HEADS);
      for (int d = 0; d < DIM; ++d)
        worst = Math.max(worst, Math.abs(numbers[d] - fromBF16(out[row * DIM + d]))); // NaN stays
    }
    System.out.printf("Java: gqa %d, largest error %.5f in %d numbers%n", GQA.gqa_version(), worst, out.length);
    System.exit(worst < 0.01 ? 0 : 1);
  }
}
